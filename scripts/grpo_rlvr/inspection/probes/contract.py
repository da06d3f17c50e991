"""What a reward has promised, looked at in the scores that are there: values, totals, missing scores, names."""

from __future__ import annotations

import collections

from grpo_rlvr.inspection.probes.findings import finding, pair_example, scored
from grpo_rlvr.inspection.probes.subject import KEEPS, Subject

TOTALS_WARN, TOTALS_ERROR = 0.10, 0.50
NONE_WARN = 0.05


def value_range(subject: Subject) -> dict:
    """Whether each reward stays in [0, 1], or [-1, 0] for shaping terms; outside, weights and the pass threshold mean something else."""
    odd = []
    for reward in subject.rewards:
        values = [row["scores"][reward.name] for row in subject.scores if row["scores"][reward.name] is not None]
        if values and (min(values) < -1 or max(values) > 1):
            odd.append(f"{reward.name} gives {min(values):g} to {max(values):g}")
    # Where some completions pass and some fail, a paid reward that sees no difference at all is likely broken.
    differ = {row["verdict"] for row in subject.scores} >= {True, False}
    flat = []
    for reward in subject.rewards if differ else ():
        values = {row["scores"][reward.name] for row in subject.scores}
        if reward.weight and len(values) == 1 and None not in values:
            flat.append(f"{reward.name} is {values.pop():g} in all {len(subject.scores)} samples")
    said = []
    if odd:
        said.append(f"{'; '.join(odd)}: scale it to [0, 1] (its importance is its weight), or pass_threshold does not mean what it says")
    if flat:
        said.append(f"{'; '.join(flat)}: it teaches nothing; does it read the text in the form that the model writes, and a gold as the type it has?")
    if said:
        return finding("value_range", "warning", "; ".join(said))
    return finding("value_range", "ok", "all values are between -1 and 1")


def totals(subject: Subject) -> dict:
    """Whether the sum of all rewards ever pays a completion that fails more than one of the same prompt that passes: training follows the sum."""
    samples, scores = subject.samples, subject.scores
    by_prompt: dict[int, dict[bool, list[int]]] = {}
    for i, row in enumerate(scores):
        if row["verdict"] is not None and row["total"] is not None:
            by_prompt.setdefault(samples[i]["prompt_index"], {}).setdefault(row["verdict"], []).append(i)
    both = [
        (min(g[True], key=lambda i: scores[i]["total"]), max(g[False], key=lambda i: scores[i]["total"])) for g in by_prompt.values() if len(g) == 2
    ]
    gaps = [(scores[wrong]["total"] - scores[right]["total"], right, wrong) for right, wrong in both]
    worse = [gap for gap in gaps if gap[0] > KEEPS]
    share = len(worse) / len(both) if both else 0.0
    if not worse:
        return finding("totals", "ok", "in no prompt does a completion that fails earn more than one that passes", share=share)
    severity = "error" if share > TOTALS_ERROR else "warning" if share > TOTALS_WARN else "ok"
    message = (
        f"in {len(worse)} of {len(both)} prompts with both, a completion that fails earns a higher total than one that passes: "
        "the other rewards outweigh being right; change their weights"
    )
    _, right, wrong = max(worse)
    pair = {word: scored(samples[i], scores[i]) for word, i in (("passes", right), ("fails", wrong))}
    return finding("totals", severity, message, pair_example(samples[wrong], pair), share=share)


def none_share(subject: Subject) -> dict:
    """How often each reward could not score an honest completion. Whether too few are left to learn from is the signal's affair."""
    count, said = len(subject.scores), []
    for reward in subject.rewards:
        missing = sum(row["scores"][reward.name] is None for row in subject.scores)
        if missing > NONE_WARN * count:
            said.append(f"{reward.name} gives None for {missing} of {count} completions")
    if said:
        message = f"{'; '.join(said)}: None means 'cannot be scored' and drops the completion; a wrong one is 0"
        return finding("none_share", "warning", message)
    return finding("none_share", "ok", f"at most {NONE_WARN:.0%} of the completions could not be scored")


def names(subject: Subject) -> dict:
    """Whether each reward has a name of its own, which is the trainer's key for its metrics and weights."""
    counted = collections.Counter(r.name for r in subject.rewards)
    twice = sorted(name for name, count in counted.items() if count > 1)
    bare = [r.name for r in subject.rewards if not getattr(r.function, "__name__", None)]
    if twice:
        return finding("names", "error", f"{', '.join(twice)} is the name of more than one reward: their metrics would be mixed; set `name:`")
    if bare:
        return finding("names", "error", f"{', '.join(bare)} has no __name__, which the trainer asks for")
    return finding("names", "ok", "each reward has a name of its own")
