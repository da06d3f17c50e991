"""Two sides that are compared, what the policy wrote at first and what it writes now, and the form of what is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grpo_rlvr.completions import completion_text


@dataclass(frozen=True)
class Side:
    """Samples with their score rows, aligned, and what the probes found on them."""

    samples: Sequence[dict]
    scores: Sequence[dict]
    probes: Sequence[Mapping] = ()


def text_id(sample_id: str) -> str:
    """The id of the text: without the number that tells equal completions of a prompt apart."""
    return sample_id.partition("-")[0]


def finding(name: str, severity: str, message: str, now: Side | None = None, places: set[int] = frozenset()) -> dict:
    shown: dict[str, int] = {}
    for i in sorted(places, key=lambda i: (-(now.scores[i]["total"] or 0.0), len(completion_text(now.samples[i]["completion"])), i)):
        shown.setdefault(text_id(now.samples[i]["sample_id"]), i)
    return {"finding": name, "severity": severity, "message": message, "sample_ids": [now.samples[i]["sample_id"] for i in list(shown.values())[:5]]}
