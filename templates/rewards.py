"""Your own rewards. Name one in config.yaml: `- use: rewards.py:within_tolerance`, with `args: {tolerance: 0.01}`."""

import re


def within_tolerance(completions, answer, tolerance=1e-6, **columns):
    """1.0 where the last `<answer>` is a number within `tolerance` of the gold, 0.0 elsewhere.

    Args:
        completions: one a sample; text where the prompt is text, a list of messages where the prompt is one.
        answer: the gold column, one value a completion. A column you name without a default is required of the data.

    Returns:
        One value in [0, 1] a completion. `None` means "cannot be scored" (a broken gold) and drops the sample; it never means "wrong".
    """
    scores = []
    for completion, gold in zip(completions, answer, strict=True):
        text = completion if isinstance(completion, str) else completion[-1]["content"] or ""
        found = re.findall(r"<answer>\s*(-?\d{1,30}(?:\.\d{1,30})?)\s*</answer>", text)
        scores.append(float(bool(found) and abs(float(found[-1]) - float(gold)) <= tolerance))
    return scores
