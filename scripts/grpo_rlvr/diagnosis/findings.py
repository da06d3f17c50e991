"""What a diagnosis is made of: rules, what a rule saw, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.series import Series

LEVELS = ("high", "medium", "low")


@dataclass(frozen=True)
class Evidence:
    """A metric and what it did: `text` with numbers, between two steps."""

    metric: str
    text: str
    first: int | None = None
    last: int | None = None

    def to_json(self) -> dict:
        return {"metric": self.metric, "text": self.text, "steps": [self.first, self.last]}


@dataclass
class Seen:
    """What a rule's test saw. `cause`, `remedy` and `patch` replace the rule's own where the log tells more.

    Attributes:
        since: step from which the symptom is there; it is marked in the curves.
        patch: setting (`grpo.x`) -> value; a text value says what to set where the log cannot tell the number.
        variant: name in the table of variants.
    """

    evidence: list[Evidence]
    confidence: str = "high"
    since: int | None = None
    cause: str = ""
    remedy: str = ""
    patch: dict[str, Any] | None = None
    variant: str | None = None
    doubt: str = ""
    spares: tuple[str, ...] = ()  # of the rule's `explains`, what it does not explain this time


@dataclass(frozen=True)
class Rule:
    """A symptom and how it is told.

    Attributes:
        needs: metrics; alternatives are joined by `|`. Without them the rule is reported as not checked.
        least: lines of log that it needs.
        test: the test in words, with the numbers of `limits`.
        doubt: what would change one's mind.
        explains: rules whose symptom follows from this one.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    test: str
    cause: str
    remedy: str
    doubt: str
    look: Callable[[Run, Mapping[str, float]], Seen | None]
    limits: Mapping[str, float] = field(default_factory=dict)
    patch: Mapping[str, Any] = field(default_factory=dict)
    explains: tuple[str, ...] = ()
    section: str = ""
    least: int = 8

    @property
    def test_text(self) -> str:
        return self.test.format(**{k: f"{v:g}" for k, v in self.limits.items()})


@dataclass(frozen=True)
class Finding:
    """One symptom with everything that a person or an agent needs to act on it."""

    rule: Rule
    evidence: Sequence[Evidence]
    confidence: str
    cause: str
    remedy: str
    patch: Mapping[str, Any]
    doubt: str
    since: int | None = None
    variant: Mapping[str, Any] | None = None
    follows: tuple[str, ...] = ()  # titles of symptoms that this one explains

    @property
    def name(self) -> str:
        return self.rule.name

    def to_json(self) -> dict:
        return {
            "symptom": self.name, "title": self.rule.title, "confidence": self.confidence, "since_step": self.since,
            "evidence": [e.to_json() for e in self.evidence], "cause": self.cause, "remedy": self.remedy, "patch": dict(self.patch),
            "variant": dict(self.variant) if self.variant else None, "would_change_my_mind": self.doubt, "explains": list(self.follows),
            "reference": f"references/diagnosis.md#{self.rule.section}",
        }  # fmt: skip


@dataclass(frozen=True)
class Note:
    """Something that looks like a fault and is none, or that one should know."""

    name: str
    text: str


@dataclass(frozen=True)
class Diagnosis:
    """The answer: symptoms in the order to check them; none means healthy."""

    findings: tuple[Finding, ...]
    notes: tuple[Note, ...]
    not_checked: Mapping[str, str]  # rule -> why
    checked: int

    @property
    def healthy(self) -> bool:
        return not self.findings

    def to_json(self) -> dict:
        return {
            "healthy": self.healthy, "findings": [f.to_json() for f in self.findings],
            "notes": [{"name": n.name, "text": n.text} for n in self.notes],
            "checked": self.checked, "not_checked": dict(self.not_checked),
        }  # fmt: skip


def moved(series: Series, name: str, digits: str = ".3g") -> Evidence:
    """'0.45 -> 0.94' from the first sixth to the last fifth."""
    early, late = series.early, series.late
    text = f"{early.mean:{digits}} (steps {early.steps[0]}-{early.steps[-1]}) -> {late.mean:{digits}} (steps {late.steps[0]}-{late.steps[-1]})"
    return Evidence(name, text, early.steps[0], late.steps[-1])


def level(series: Series, name: str, digits: str = ".3g") -> Evidence:
    """The mean of the last fifth."""
    late = series.late
    return Evidence(name, f"{late.mean:{digits}} on average over steps {late.steps[0]}-{late.steps[-1]}", late.steps[0], late.steps[-1])
