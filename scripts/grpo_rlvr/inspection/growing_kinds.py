"""Kinds of completions that grew, and that are paid: those that hardly anyone wrote at first, and those that readers failed."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_rlvr.inspection.clusters import Z99, mean
from grpo_rlvr.inspection.kinds import Kind
from grpo_rlvr.inspection.sides import Side, finding, text_id
from grpo_rlvr.intervals import effective_size, wilson

RARE, COMMON = 0.05, 0.15  # share of a new kind at first, and now
GROWTH = 0.10  # of a kind that readers failed
MOST = 5
FAMILIES = ("same text", "invisible", "loop", "frame", "opening", "ending", "phrase")
Members = Mapping[Kind, set[int]]


def new_kinds(first: Side, now: Side, before: Members, after: Members, labels: Mapping[str, str]) -> list[dict]:
    """Kinds of completions that were rare at first, are common now, under many prompts, and are paid.

    One that readers have passed is no finding any more; one that they failed is an error.
    """
    prompts = len({s["prompt_index"] for s in now.samples})
    if prompts < 3:
        return [finding("new_kinds", "note", f"completions of {prompts} prompts say nothing of kinds: more is needed of the run's tables")]
    candidates = []
    for kind, places in after.items():
        share, share_first = len(places) / len(now.samples), len(before.get(kind, ())) / len(first.samples)
        spread = len({now.samples[i]["prompt_index"] for i in places})
        grew = share_first <= RARE and _surely_above(now, places, max(RARE, 2 * share_first))
        if grew and spread >= max(3, prompts / 2) and _pays(now, places):
            candidates.append((FAMILIES.index(kind.family), -share, kind, places, share_first))
    chosen: list[tuple[Kind, set[int], float]] = []
    for _, _, kind, places, share_first in sorted(candidates, key=lambda c: c[:3]):
        # A new opening comes with new phrases: one cause, one finding.
        if not any(_overlap(places, other, kind.family == "phrase") for _, other, _ in chosen):
            chosen.append((kind, places, share_first))
    return [_kind_finding(now, labels, *kind) for kind in chosen[:MOST]]


def _overlap(places: set[int], other: set[int], part_of_it: bool) -> bool:
    """Whether two kinds are mostly the same samples; for a phrase, also whether it is mostly found in the other's."""
    whole = min(len(places), len(other)) if part_of_it else len(places | other)
    return len(places & other) >= 0.7 * whole


def _kind_finding(now: Side, labels: Mapping[str, str], kind: Kind, places: set[int], share_first: float) -> dict:
    said = [label for i in places if (label := labels.get(text_id(now.samples[i]["sample_id"]))) in ("pass", "fail")]
    passed, failed = said.count("pass"), said.count("fail")
    severity = "error" if failed else "ok" if passed >= min(5, _distinct(now, places)) else "warning"
    inside, rest = _totals(now, places), _totals(now, set(range(len(now.samples))) - places)
    earns = f"earns {mean(inside):.2f} on average" + (f", the others {mean(rest):.2f}" if rest else "")
    read = f"; readers passed {passed} and failed {failed} of it" if said else "; nobody has read any of it"
    message = (
        f"a kind of completion that was {share_first:.0%} of the first is {len(places) / len(now.samples):.0%} now and {earns}: "
        f"{kind.family} '{kind.pattern[:120]}'{read}"
    )
    return {**finding("new_kind", severity, message, now, places), "kind": list(kind), "first": share_first, "now": len(places) / len(now.samples)}


def failed_kinds(first: Side, now: Side, before: Members, after: Members, labels: Mapping[str, str]) -> list[dict]:
    """Kinds that readers failed before training, and that grew."""
    read = {i: labels.get(text_id(s["sample_id"])) for i, s in enumerate(first.samples)}
    found: list[tuple[float, Kind, set[int], int]] = []
    for kind, places in after.items():
        said = [read[i] for i in before.get(kind, ()) if read[i] in ("pass", "fail")]
        failed, share_first = said.count("fail"), len(before.get(kind, ())) / len(first.samples)
        if (
            failed >= 3
            and failed >= 0.8 * len(said)
            and share_first > RARE
            and _surely_above(now, places, share_first + GROWTH)
            and _pays(now, places)
        ):
            found.append((-len(places), kind, places, failed))
    for _, kind, places, failed in sorted(found)[:1]:
        share = len(before[kind]) / len(first.samples), len(places) / len(now.samples)
        message = (
            f"a kind of completion that readers failed ({failed} of it) grew from {share[0]:.0%} to {share[1]:.0%} and is paid: "
            f"{kind.family} '{kind.pattern[:120]}'"
        )
        return [{**finding("failed_kind", "error", message, now, places), "kind": list(kind)}]
    return []


def _pays(now: Side, places: set[int]) -> bool:
    """Whether the kind passes more often than not, or earns no less than the others."""
    verdicts = [now.scores[i]["verdict"] for i in places]
    inside, rest = _totals(now, places), _totals(now, set(range(len(now.samples))) - places)
    return sum(v is True for v in verdicts) >= len(verdicts) / 2 or bool(inside and (not rest or mean(inside) > mean(rest)))


def _surely_above(now: Side, places: set[int], share: float) -> bool:
    """Whether the share of these samples is above `share` with all but 1% of certainty, prompts counted as clusters."""
    groups: dict[int, list[bool]] = {}
    for i, sample in enumerate(now.samples):
        groups.setdefault(sample["prompt_index"], []).append(i in places)
    effective = effective_size([sum(g) for g in groups.values()], [len(g) for g in groups.values()])
    if len(places) == len(now.samples):
        effective = len(groups)  # no variance to see: the prompts count
    return wilson(len(places) / len(now.samples), effective, Z99)[0] > share


def _totals(now: Side, places: set[int]) -> list[float]:
    return [now.scores[i]["total"] for i in places if now.scores[i]["total"] is not None]


def _distinct(now: Side, places: set[int]) -> int:
    return len({text_id(now.samples[i]["sample_id"]) for i in places})
