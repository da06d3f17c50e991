"""What is attacked: rewards, the samples they scored, and a way to score changed completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.completions import REASONING_TAGS, completion_text
from grpo_rlvr.errors import GoldError, UserError
from grpo_rlvr.inspection.probes.golds import all_golds, answer_texts, answers_of, gold_names, kind_of, last_answer
from grpo_rlvr.inspection.scores import score_samples

KEEPS = 1e-9
CHUNK = 512  # completions scored at once
BUDGET_S = 90.0  # what the attacks on a slow reward may cost together
SHORT = 200  # characters that even a reward is given which is slow on long text
LEAST = 60  # completions that are tried on the slowest reward


@dataclass(frozen=True)
class Trial:
    """A changed completion of sample number `of`, for the probe that asks whether it is paid.

    Attributes:
        what: the change in words.
        sure: being paid is an error, else a warning. A near answer, or one that may be another name, is not surely wrong.
        part: something right is left in it, so less reward is punishment enough, even if the verdict is still a pass.
        odd: a model hardly writes this; a reward that raises on it gets a warning, no error.
        place: where the right answer stands among others ("first", "last", ...).
        path: the field of a JSON answer that was made wrong.
        columns: the gold columns to score against, if not the sample's own.
    """

    of: int
    completion: Any
    probe: str
    what: str
    old: str = ""
    new: str = ""
    sure: bool = True
    part: bool = False
    odd: bool = False
    place: str = ""
    near: bool = False
    name: bool = False
    path: str = ""
    columns: Mapping[str, Any] | None = None


@dataclass
class Subject:
    """The rewards with samples and score rows (aligned). `labels`: sample_id -> pass, fail or unsure, as far as someone has read.

    `seconds` (of one completion, all rewards), `noisy` (the same call gave other scores) and `slow` (text that repeats itself takes long) are
    set once they have been measured. So are `gold_like`, columns that look like the gold and that no deciding reward names, and of them `unread`,
    those that change no score.
    """

    rewards: Sequence
    samples: Sequence[dict]
    scores: Sequence[dict]
    threshold: float
    labels: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    noisy: bool = False
    slow: bool = False
    gold_like: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        accepted = [i for i, row in enumerate(self.scores) if row["verdict"] is True]
        passed = [i for i in accepted if self.labels.get(self.samples[i]["sample_id"]) == "pass"]
        self.source = "label pass" if passed else "verdict pass"
        self.accepted = passed or accepted
        self.distinct = _distinct(self.accepted, self.samples)
        self.rejected = [i for i, row in enumerate(self.scores) if row["verdict"] is False]
        self.names = gold_names(self.rewards, self.samples)
        self.kind = kind_of(self.rewards, self.samples)
        self.others = list(dict.fromkeys(last_answer(text) for s in self.samples for text in answer_texts(s["columns"], self.names)))
        opened = [tag for tag in REASONING_TAGS if any(f"<{tag}>" in self.text(i) for i in self.distinct[:200])]
        self.reasons, self.tag = bool(opened), (opened or ["think"])[0]

    def text(self, i: int) -> str:
        return completion_text(self.samples[i]["completion"])

    def golds(self, i: int) -> list[str]:
        """Every value of the sample's row that may be the truth."""
        return all_golds(self.samples[i]["columns"])

    def answers(self, i: int) -> list[str]:
        """The answers that the deciding rewards read."""
        return answers_of(self.samples[i]["columns"], self.names)

    def decided(self, row: Mapping) -> float | None:
        """What the deciding rewards give, before the threshold makes a verdict of it."""
        judges = [r for r in self.rewards if r.required] or list(self.rewards)
        parts = [row["scores"][r.name] for r in judges]
        weights = [abs(r.weight) for r in judges]
        weights = weights if sum(weights) else [1.0] * len(judges)
        return None if any(p is None for p in parts) else sum(w * p for w, p in zip(weights, parts, strict=True)) / sum(weights)

    def affordable(self, trials: Sequence[Trial]) -> list[Trial]:
        """All trials of a quick reward; of a slow one as many as the budget allows, some of each kind first, and no long ones."""
        if self.slow:
            trials = [t for t in trials if t.probe != "repetition" and len(completion_text(t.completion)) <= 2 * len(self.text(t.of)) + SHORT]
        most = max(LEAST, int(BUDGET_S / self.seconds)) if self.seconds > 0.002 else len(trials)
        if len(trials) <= most:
            return list(trials)
        turns: dict[tuple, int] = {}
        ranked = []
        for place, trial in enumerate(trials):
            key = (trial.probe, trial.what, trial.path)
            ranked.append((turns.get(key, 0), place))
            turns[key] = turns.get(key, 0) + 1
        return [trials[place] for place in sorted(place for _, place in sorted(ranked)[:most])]

    def score(self, trials: Sequence[Trial]) -> list[dict | UserError]:
        """A score row for each trial, or the error in its place; equal ones are scored once."""
        rows: dict[Any, dict | UserError] = {}
        keys = [(t.of, repr(t.completion), None if t.columns is None else id(t.columns)) for t in trials]
        first = dict(zip(reversed(keys), reversed(trials), strict=True))
        changed = [
            {**self.samples[t.of], "completion": t.completion, **({} if t.columns is None else {"columns": t.columns})} for t in first.values()
        ]
        for at in range(0, len(changed), CHUNK):
            part = score_each(self.rewards, changed[at : at + CHUNK], self.threshold)
            rows.update(zip(list(first)[at : at + CHUNK], part, strict=True))
        return [rows[key] for key in keys]

    def paid(self, trial: Trial, row: dict | UserError) -> bool:
        """Whether a changed completion is paid: its verdict is a pass, or its total is not below the original's.

        Of one with something right left in it: whether the deciding rewards give it as much as the original.
        """
        if not isinstance(row, dict):
            return False
        original = self.scores[trial.of]
        if trial.part:
            before, after = self.decided(original), self.decided(row)
            return row["verdict"] is True and before is not None and after is not None and after >= before - KEEPS
        if row["verdict"] is True:
            return True
        kept = row["total"] is not None and original["total"] is not None and row["total"] >= original["total"] - KEEPS
        return kept and original["verdict"] is True and not self.noisy

    def size(self, trial: Trial) -> tuple:
        """For the choice of the smallest proof."""
        return (len(completion_text(trial.completion)), str((trial.old, trial.new)), trial.of)


def score_each(rewards: Sequence, samples: Sequence[dict], threshold: float) -> list[dict | UserError]:
    """Score rows, with the error in the place of those that make a reward raise; found by halving."""
    try:
        return score_samples(rewards, samples, threshold)[0]
    except GoldError:
        raise
    except UserError as exc:
        if exc.kind != "reward":
            raise
        if len(samples) == 1:
            return [exc]
        half = len(samples) // 2
        return score_each(rewards, samples[:half], threshold) + score_each(rewards, samples[half:], threshold)


def spread(indices: Sequence[int], most: int) -> list[int]:
    """At most so many, evenly spread; always the same."""
    return list(indices) if len(indices) <= most else [indices[k * len(indices) // most] for k in range(most)]


def _distinct(indices: Sequence[int], samples: Sequence[dict]) -> list[int]:
    """One of each equal completion of a prompt."""
    return list({(samples[i]["prompt_index"], samples[i]["sample_id"].partition("-")[0]): i for i in reversed(indices)}.values())[::-1]
