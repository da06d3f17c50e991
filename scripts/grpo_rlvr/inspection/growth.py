"""What the policy writes now against what it wrote at first: where the reward grew and being right did not.

Nobody has read the new completions, so nothing here knows the truth. What can be seen without: whether a wrong answer keeps its reward, whether
what is paid still ends in the gold as it did at first, whether rewards that are only watched fall, and what kinds of completions pay that hardly
anyone wrote before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grpo_rlvr.completions import completion_text, final_answer
from grpo_rlvr.inspection.clusters import Z99, difference, mean, mean_of
from grpo_rlvr.inspection.equality import differs
from grpo_rlvr.inspection.jsonl import canonical
from grpo_rlvr.inspection.kinds import Kind, members
from grpo_rlvr.intervals import effective_size, wilson

RARE, COMMON = 0.05, 0.15  # share of a new kind at first, and now
DROP = 0.10  # of the paid that end in the gold
VALID = 0.70  # of the paid must have ended in the gold at first, or the gold is compared in another way than this
LEAST = 10  # completions that pass, for a share of them
MOST_KINDS = 5
MOST_GOLD = 200  # characters; a longer gold is a worked solution
FAMILIES = ("same text", "invisible", "loop", "frame", "opening", "ending", "phrase")


@dataclass(frozen=True)
class Side:
    """Samples with their score rows, aligned, and what the probes found on them."""

    samples: Sequence[dict]
    scores: Sequence[dict]
    probes: Sequence[Mapping] = ()


def compare(first: Side, now: Side, rewards: Sequence, labels: Mapping[str, str], truncated_share: float | None = None) -> list[dict]:
    """Findings, the gravest first: each with `finding`, `severity` (error, warning, note, ok), `message` and `sample_ids` (of `now`) that show it.

    Args:
        rewards: with `name`, `weight` and `required`, in the order of training.
        labels: pass, fail or unsure by sample id (of a text: without the number of its repetition), from every reading so far.
        truncated_share: of `now`, where the samples do not tell how they ended.
    """
    found = [
        *_probes(first, now),
        *_readers(now, labels),
        *_gold(first, now),
        *_rewards_part(first, now, rewards),
        *new_kinds(first, now, labels),
        *_failed_kinds(first, now, labels),
        *_shifts(first, now, truncated_share),
    ]
    order = ("error", "warning", "note", "ok")
    return sorted(found, key=lambda f: order.index(f["severity"]))


def measures(side: Side, rewards: Sequence) -> dict:
    """The numbers that are compared, for people and for `growth.json`."""
    ends = [ends_in_gold(s) for s in side.samples]
    passed = [v for v in (row["verdict"] for row in side.scores) if v is not None]
    paid = [end for end, row in zip(ends, side.scores, strict=True) if row["verdict"] is True and end is not None]
    known = [s["finish"] for s in side.samples if s["finish"] != "unknown"]
    return {
        "samples": len(side.samples),
        "prompts": len({s["prompt_index"] for s in side.samples}),
        "mean_total": mean([row["total"] for row in side.scores]),
        "mean_scores": {r.name: mean([row["scores"][r.name] for row in side.scores]) for r in rewards},
        "pass_share": mean(passed),
        "none_share": sum(row["verdict"] is None for row in side.scores) / len(side.scores),
        "gold_share": mean(ends),
        "gold_share_of_paid": mean(paid),
        "mean_characters": mean([len(completion_text(s["completion"])) for s in side.samples]),
        "truncated_share": known.count("length") / len(known) if known else None,
        "duplicate_share": 1 - len({(s["prompt_index"], canonical(s["completion"])) for s in side.samples}) / len(side.samples),
    }


def ends_in_gold(sample: Mapping) -> bool | None:
    """Whether the final answer equals a gold column in text or number; None if the sample has no gold that a short answer could equal."""
    golds = []
    for name, value in sample["columns"].items():
        if name != "row_id" and isinstance(value, str | int | float) and not isinstance(value, bool):
            text = str(value)
            golds += [g for g in (text, final_answer(text)) if g and len(g) <= MOST_GOLD]
    if not golds:
        return None
    answer = final_answer(completion_text(sample["completion"]))
    return answer is not None and answer != "" and not differs(answer, golds)


def new_kinds(first: Side, now: Side, labels: Mapping[str, str]) -> list[dict]:
    """Kinds of completions that were rare at first, are common now, under many prompts, and are paid.

    One that readers have passed is no finding any more; one that they failed is an error.
    """
    prompts = len({s["prompt_index"] for s in now.samples})
    if prompts < 3:
        return [_finding("new_kinds", "note", f"completions of {prompts} prompts say nothing of kinds: more is needed of the run's tables")]
    before, after = members(first.samples), members(now.samples)
    candidates = []
    for kind, places in after.items():
        share, share_first = len(places) / len(now.samples), len(before.get(kind, ())) / len(first.samples)
        spread = len({now.samples[i]["prompt_index"] for i in places})
        grew = share_first <= RARE and share >= COMMON and _surely_above(now, places, max(RARE, 2 * share_first))
        if grew and spread >= max(3, prompts / 2) and _pays(now, places):
            candidates.append((FAMILIES.index(kind.family), -share, kind, places, share_first))
    chosen: list[tuple[Kind, set[int], float]] = []
    for _, _, kind, places, share_first in sorted(candidates, key=lambda c: c[:3]):
        # A new opening comes with new phrases: one cause, one finding.
        if not any(_overlap(places, other, kind.family == "phrase") for _, other, _ in chosen):
            chosen.append((kind, places, share_first))
    return [_kind_finding(now, labels, *kind) for kind in chosen[:MOST_KINDS]]


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
    return {**_finding("new_kind", severity, message, now, places), "kind": list(kind), "first": share_first, "now": len(places) / len(now.samples)}


def _probes(first: Side, now: Side) -> list[dict]:
    before = {f["probe"]: f for f in first.probes}
    found = []
    for probe in now.probes:
        if probe["severity"] != "error":
            continue
        old, message = before.get(probe["probe"]), f"on what the policy writes now: {probe['message']}"
        if old is not None and old.get("mutants"):
            message += f" (at first: {old['unpunished']} of {old['mutants']})"
        ids = [probe["example"]["sample_id"]] if probe.get("example") else []
        found.append({**_finding("probe", "error", message), "sample_ids": ids, "probe": probe["probe"], "example": probe.get("example")})
    return found


def _readers(now: Side, labels: Mapping[str, str]) -> list[dict]:
    """What readers said of the very completions of now."""
    said = [labels.get(text_id(s["sample_id"])) for s in now.samples]
    wrong = {i for i, row in enumerate(now.scores) if said[i] == "fail" and row["verdict"] is True}
    if not wrong:
        return []
    read = sum(label in ("pass", "fail") and row["verdict"] is True for label, row in zip(said, now.scores, strict=True))
    return [_finding("paid_and_failed", "error", f"readers failed {len(wrong)} of the {read} paid completions of now that were read", now, wrong)]


def _gold(first: Side, now: Side) -> list[dict]:
    """Whether what is paid still ends in the gold; for a reward that passes nothing, whether the total rises while fewer do."""
    ends = {"first": [ends_in_gold(s) for s in first.samples], "now": [ends_in_gold(s) for s in now.samples]}
    if None in ends["first"] or None in ends["now"]:
        return []
    paid = {name: [row["verdict"] is True for row in side.scores] for name, side in (("first", first), ("now", now))}
    found = []
    if min(sum(paid["first"]), sum(paid["now"])) >= LEAST:
        before, after = (_picked(side, ends[name], paid[name]) for name, side in (("first", first), ("now", now)))
        fall = difference(before, after)
        if mean_of(before) >= VALID and fall.value < -DROP and fall.falls:
            message = (
                f"of what the reward passes {mean_of(before):.0%} ended in the gold at first, and {mean_of(after):.0%} do now "
                f"(passed: {mean(paid['first']):.0%}, now {mean(paid['now']):.0%}): reward and truth part"
            )
            found.append(_finding("gold", "error", message, now, {i for i, p in enumerate(paid["now"]) if p and not ends["now"][i]}))
    fall = difference(_picked(first, ends["first"]), _picked(now, ends["now"]))
    rise = difference(_values(first, lambda row: row["total"]), _values(now, lambda row: row["total"]))
    if not found and fall.value < -DROP / 2 and fall.falls and rise.rises:
        message = (
            f"the mean total rose by {rise.value:.2f} while completions that end in the gold fell from {mean(ends['first']):.0%} to "
            f"{mean(ends['now']):.0%}: reward and truth part"
        )
        found.append(_finding("gold", "error", message, now, {i for i, end in enumerate(ends["now"]) if not end}))
    return found


def _rewards_part(first: Side, now: Side, rewards: Sequence) -> list[dict]:
    rise = difference(_values(first, lambda row: row["total"]), _values(now, lambda row: row["total"]))
    found = []
    for reward in rewards:
        before, after = (_values(side, lambda row, name=reward.name: row["scores"][name]) for side in (first, now))
        if difference(before, after).falls and rise.rises:
            watched = reward.weight == 0 or reward.required
            how = "is only watched" if reward.weight == 0 else f"has weight {reward.weight:g}"
            message = (
                f"the mean total rose by {rise.value:.2f} while {reward.name}, which {how}, fell from {mean_of(before):.2f} to {mean_of(after):.2f}"
            )
            lowest = sorted(range(len(now.samples)), key=lambda i, name=reward.name: now.scores[i]["scores"][name] or 0.0)[:20]
            found.append(_finding("rewards_part", "error" if watched else "note", message, now, set(lowest)))
    return found


def _failed_kinds(first: Side, now: Side, labels: Mapping[str, str]) -> list[dict]:
    """Kinds that readers failed before training, and that grew."""
    read = {i: labels.get(text_id(s["sample_id"])) for i, s in enumerate(first.samples)}
    before, after = members(first.samples), members(now.samples)
    found: list[tuple[float, Kind, set[int], int]] = []
    for kind, places in after.items():
        said = [read[i] for i in before.get(kind, ()) if read[i] in ("pass", "fail")]
        failed, share_first = said.count("fail"), len(before.get(kind, ())) / len(first.samples)
        if failed >= 3 and failed >= 0.8 * len(said) and share_first > RARE and _surely_above(now, places, share_first + DROP) and _pays(now, places):
            found.append((-len(places), kind, places, failed))
    for _, kind, places, failed in sorted(found)[:1]:
        share = len(before[kind]) / len(first.samples), len(places) / len(now.samples)
        message = (
            f"a kind of completion that readers failed ({failed} of it) grew from {share[0]:.0%} to {share[1]:.0%} and is paid: "
            f"{kind.family} '{kind.pattern[:120]}'"
        )
        return [{**_finding("failed_kind", "error", message, now, places), "kind": list(kind)}]
    return []


def _shifts(first: Side, now: Side, truncated_share: float | None) -> list[dict]:
    """Lengths, truncation, duplicates, None: warnings where the reward then judges less than it did, else notes."""
    before, after = measures(first, ()), measures(now, ())
    after["truncated_share"] = after["truncated_share"] if truncated_share is None else truncated_share
    found = []

    def grew(name: str, by: float) -> bool:
        return before[name] is not None and after[name] is not None and after[name] - before[name] >= by

    if grew("none_share", 0.05):
        found.append(_finding("none", "warning", f"{after['none_share']:.0%} could not be scored, at first {before['none_share']:.0%}"))
    if grew("truncated_share", 0.10):
        message = f"{after['truncated_share']:.0%} were cut off, at first {before['truncated_share']:.0%}: raise max_completion_length"
        found.append(_finding("truncation", "warning", message))
    if grew("duplicate_share", 0.30):
        message = (
            f"{after['duplicate_share']:.0%} of a prompt's completions repeat another, at first {before['duplicate_share']:.0%}: less to learn from"
        )
        found.append(_finding("duplicates", "note", message))
    ratio = after["mean_characters"] / before["mean_characters"] if before["mean_characters"] else 1.0
    if not 1 / 1.5 < ratio < 1.5:
        message = f"completions have {after['mean_characters']:.0f} characters on average, at first {before['mean_characters']:.0f}"
        found.append(_finding("length", "note", message))
    return found


def text_id(sample_id: str) -> str:
    """The id of the text: without the number that tells equal completions of a prompt apart."""
    return sample_id.partition("-")[0]


def _finding(name: str, severity: str, message: str, now: Side | None = None, places: set[int] = frozenset()) -> dict:
    shown: dict[str, int] = {}
    for i in sorted(places, key=lambda i: (-(now.scores[i]["total"] or 0.0), len(completion_text(now.samples[i]["completion"])), i)):
        shown.setdefault(text_id(now.samples[i]["sample_id"]), i)
    return {"finding": name, "severity": severity, "message": message, "sample_ids": [now.samples[i]["sample_id"] for i in list(shown.values())[:5]]}


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


def _values(side: Side, of: Callable[[dict], float | None]) -> list[tuple[int, float]]:
    """(prompt, value) of the samples that have one."""
    return [(s["prompt_index"], float(v)) for s, row in zip(side.samples, side.scores, strict=True) if (v := of(row)) is not None]


def _picked(side: Side, values: Sequence[bool | None], keep: Sequence[bool] | None = None) -> list[tuple[int, float]]:
    return [(s["prompt_index"], float(v)) for i, (s, v) in enumerate(zip(side.samples, values, strict=True)) if keep is None or keep[i]]
