"""Whether the reward runs the model's text in this very process, and whether cheating programs are paid."""

from __future__ import annotations

import os
from collections.abc import Sequence

from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.mutate import replaced
from grpo_rlvr.inspection.probes.case import make_case
from grpo_rlvr.inspection.probes.code import cheats, code_span, entry_point, with_code
from grpo_rlvr.inspection.probes.findings import attack_example, finding
from grpo_rlvr.inspection.probes.subject import Subject, Trial, score_each, spread

MARK = "GRPO_RLVR_PROBE_WAS_RUN"  # an environment variable that the text sets, if it is run here
STARTS, CHEATED = 4, 10
_SET = f"__import__('os').environ.__setitem__({MARK!r}, '1')"


def runs_completion(subject: Subject) -> dict:
    """Scores completions that set a mark when they are run as Python; the text does nothing else."""
    starts = spread(subject.distinct, STARTS) or spread(range(len(subject.samples)), STARTS)
    tried = 0
    os.environ.pop(MARK, None)
    try:
        for i in starts:
            for text in _marking(subject, i):
                tried += 1
                sample = {**subject.samples[i], "completion": _with(subject, i, text)}
                row = score_each(subject.rewards, [sample], subject.threshold)[0]
                if os.environ.pop(MARK, None):
                    message = (
                        "the reward runs what the model writes, here, in the process of the training: it can end it, change its own score or "
                        "read and delete your files; run programs in a sandbox, and read answers with a parser"
                    )
                    outcome = None if isinstance(row, UserError) else row
                    example = attack_example(
                        subject.samples[i], subject.scores[i], sample["completion"], outcome, "", text, "Python that leaves a mark"
                    )
                    return finding("runs_completion", "error", message, example, tried, 1)
    finally:
        os.environ.pop(MARK, None)
    return finding("runs_completion", "ok", f"{tried} completions that leave a mark when they are run left none", None, tried)


def cheat_trials(subject: Subject) -> list[Trial]:
    """Cheating programs for a reward that reads `tests`. Only where `runs_completion` has found nothing: they end the process they run in."""
    trials = []
    for i in spread(subject.distinct, CHEATED) or spread(range(len(subject.samples)), CHEATED):
        text = subject.text(i) if subject.distinct else "```python\npass\n```\n"
        start, end = code_span(text)
        name = entry_point(subject.samples[i]["columns"].get("tests"), text[start:end])
        for what, code in cheats(name).items():
            completion = _with(subject, i, with_code(text, code))
            trials.append(Trial(i, completion, "code_cheats", f"a program that {what}", "the program", what))
    return trials


def _marking(subject: Subject, i: int) -> Sequence[str]:
    shape = make_case(subject, i).shape
    texts = [_SET, f"```python\n{_SET}\n```"]
    if shape is not None:
        texts.append(shape.text(_SET))
        texts.append(shape.text(f"{_SET} or {shape.answer}"))
    text = subject.text(i)
    start, end = code_span(text)
    if subject.kind == "code":
        texts.append(with_code(text, f"{text[start:end].rstrip()}\n{_SET}\n"))
    return texts


def _with(subject: Subject, i: int, text: str) -> object:
    completion = subject.samples[i]["completion"]
    return replaced(completion, text) if isinstance(completion, str) else [{"role": "assistant", "content": text}]
