"""What the policy writes now against what it wrote at first: where the reward grew and being right did not.

Nobody has read the new completions, so nothing here knows the truth. What can be seen without: whether a wrong answer keeps its reward, whether
what is paid still ends in the gold as it did at first, whether rewards that are only watched fall, and what kinds of completions pay that hardly
anyone wrote before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from grpo_rlvr.completions import completion_text, final_answer
from grpo_rlvr.inspection.clusters import difference, mean, mean_of
from grpo_rlvr.inspection.equality import differs
from grpo_rlvr.inspection.growing_kinds import COMMON, failed_kinds, new_kinds
from grpo_rlvr.inspection.jsonl import canonical
from grpo_rlvr.inspection.kinds import members
from grpo_rlvr.inspection.sides import Side, finding, text_id

DROP = 0.10  # of the paid that end in the gold
VALID = 0.70  # of the paid must have ended in the gold at first, or the gold is compared in another way than this
LEAST = 10  # completions that pass, for a share of them
MOST_GOLD = 200  # characters; a longer gold is a worked solution


def compare(first: Side, now: Side, rewards: Sequence, labels: Mapping[str, str], truncated_share: float | None = None) -> list[dict]:
    """Findings, the gravest first: each with `finding`, `severity` (error, warning, note, ok), `message` and `sample_ids` (of `now`) that show it.

    Args:
        rewards: with `name`, `weight` and `required`, in the order of training.
        labels: pass, fail or unsure by sample id (of a text: without the number of its repetition), from every reading so far.
        truncated_share: of `now`, where the samples do not tell how they ended.
    """
    after = {kind: places for kind, places in members(now.samples).items() if len(places) >= COMMON * len(now.samples)}
    before = members(first.samples, after)
    found = [
        *_probes(first, now),
        *_readers(now, labels),
        *_gold(first, now),
        *_rewards_part(first, now, rewards),
        *new_kinds(first, now, before, after, labels),
        *failed_kinds(first, now, before, after, labels),
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
        found.append({**finding("probe", "error", message), "sample_ids": ids, "probe": probe["probe"], "example": probe.get("example")})
    return found


def _readers(now: Side, labels: Mapping[str, str]) -> list[dict]:
    """What readers said of the very completions of now."""
    said = [labels.get(text_id(s["sample_id"])) for s in now.samples]
    wrong = {i for i, row in enumerate(now.scores) if said[i] == "fail" and row["verdict"] is True}
    if not wrong:
        return []
    read = sum(label in ("pass", "fail") and row["verdict"] is True for label, row in zip(said, now.scores, strict=True))
    return [finding("paid_and_failed", "error", f"readers failed {len(wrong)} of the {read} paid completions of now that were read", now, wrong)]


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
            found.append(finding("gold", "error", message, now, {i for i, p in enumerate(paid["now"]) if p and not ends["now"][i]}))
    fall = difference(_picked(first, ends["first"]), _picked(now, ends["now"]))
    rise = difference(_values(first, lambda row: row["total"]), _values(now, lambda row: row["total"]))
    if not found and fall.value < -DROP / 2 and fall.falls and rise.rises:
        message = (
            f"the mean total rose by {rise.value:.2f} while completions that end in the gold fell from {mean(ends['first']):.0%} to "
            f"{mean(ends['now']):.0%}: reward and truth part"
        )
        found.append(finding("gold", "error", message, now, {i for i, end in enumerate(ends["now"]) if not end}))
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
            found.append(finding("rewards_part", "error" if watched else "note", message, now, set(lowest)))
    return found


def _shifts(first: Side, now: Side, truncated_share: float | None) -> list[dict]:
    """Lengths, truncation, duplicates, None: warnings where the reward then judges less than it did, else notes."""
    before, after = measures(first, ()), measures(now, ())
    after["truncated_share"] = after["truncated_share"] if truncated_share is None else truncated_share
    found = []

    def grew(name: str, by: float) -> bool:
        return before[name] is not None and after[name] is not None and after[name] - before[name] >= by

    if grew("none_share", 0.05):
        found.append(finding("none", "warning", f"{after['none_share']:.0%} could not be scored, at first {before['none_share']:.0%}"))
    if grew("truncated_share", 0.10):
        message = f"{after['truncated_share']:.0%} were cut off, at first {before['truncated_share']:.0%}: raise max_completion_length"
        found.append(finding("truncation", "warning", message))
    if grew("duplicate_share", 0.30):
        message = (
            f"{after['duplicate_share']:.0%} of a prompt's completions repeat another, at first {before['duplicate_share']:.0%}: less to learn from"
        )
        found.append(finding("duplicates", "note", message))
    ratio = after["mean_characters"] / before["mean_characters"] if before["mean_characters"] else 1.0
    if not 1 / 1.5 < ratio < 1.5:
        message = f"completions have {after['mean_characters']:.0f} characters on average, at first {before['mean_characters']:.0f}"
        found.append(finding("length", "note", message))
    return found


def _values(side: Side, of: Callable[[dict], float | None]) -> list[tuple[int, float]]:
    """(prompt, value) of the samples that have one."""
    return [(s["prompt_index"], float(v)) for s, row in zip(side.samples, side.scores, strict=True) if (v := of(row)) is not None]


def _picked(side: Side, values: Sequence[bool | None], keep: Sequence[bool] | None = None) -> list[tuple[int, float]]:
    return [(s["prompt_index"], float(v)) for i, (s, v) in enumerate(zip(side.samples, values, strict=True)) if keep is None or keep[i]]
