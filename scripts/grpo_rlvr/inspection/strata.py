"""Samples sorted for reading: alike ones folded into one unit, units into strata, and what each drawn unit stands for."""

from __future__ import annotations

import heapq
import random
import statistics
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grpo_rlvr.completions import completion_text
from grpo_rlvr.inspection.agreement import word
from grpo_rlvr.inspection.jsonl import canonical

SKETCH = 8  # the least hashes of a text's word triples; equal ones mean nearly the same words
SIDE = 0.5  # a component says pass from here on
LONG, LEAST_LONG = 3, 200  # times the median, and characters: what counts as unusually long; a third of the median as short


@dataclass(frozen=True)
class Unit:
    """Samples (their places) that are read once; the first is shown. `stratum` is "verdict/finish" and what else sets it apart."""

    members: tuple[int, ...]
    prompt: int
    verdict: str
    stratum: str


def make_units(samples: Sequence[dict], scores: Sequence[Mapping], near: bool) -> list[Unit]:
    """All samples as units, in the order of their first members.

    Equal completions of a prompt are one; with `near` also those of nearly the same words that the rewards score alike.
    """
    groups: dict[object, list[int]] = defaultdict(list)
    kinds = _strata(samples, scores)
    for i, sample in enumerate(samples):
        key: object = content(sample)
        if near:
            values = canonical([scores[i].get("scores"), scores[i]["verdict"], sample["finish"]])
            key = (sample["prompt_index"], canonical(sample["prompt"]), values, _sketch(completion_text(sample["completion"])))
        groups[key].append(i)
    return [Unit(tuple(g), samples[g[0]]["prompt_index"], word(scores[g[0]]["verdict"]), kinds[g[0]]) for g in groups.values()]


def content(sample: Mapping) -> str:
    """What a reader sees; a second sample with the same is not read again."""
    return canonical([sample["prompt"], sample["completion"]])


def draw(units: Sequence[Unit], count: int, rng: random.Random) -> list[tuple[Unit, float]]:
    """`count` units of one stratum, taken in turn from the prompts in random order, each with the probability with which it was drawn.

    After R whole rounds and a last one in which the share f of the prompts still has its turn, a unit of a prompt with m units was drawn
    with probability (min(m, R) + (f if m > R)) / m.
    """
    by_prompt: dict[int, list[Unit]] = defaultdict(list)
    for unit in units:
        by_prompt[unit.prompt].append(unit)
    for group in by_prompt.values():
        rng.shuffle(group)
    drawn: list[Unit] = []
    rounds, share = 0, 0.0
    while len(drawn) < min(count, len(units)):
        turn = [p for p, group in by_prompt.items() if len(group) > rounds]
        rng.shuffle(turn)
        taken = turn[: count - len(drawn)]
        drawn += [by_prompt[p][rounds] for p in taken]
        if len(taken) < len(turn):
            share = len(taken) / len(turn)
            break
        rounds += 1
    sizes = Counter(unit.prompt for unit in units)
    return [(u, (min(sizes[u.prompt], rounds) + (share if sizes[u.prompt] > rounds else 0.0)) / sizes[u.prompt]) for u in drawn]


def allot(sizes: Mapping[str, int], quota: int) -> dict[str, int]:
    """How many of each stratum: a rare one gives up to a tenth of the quota (at least one, while it lasts), the rest goes by size."""
    smallest_first = sorted(sizes, key=lambda name: (sizes[name], name))
    total, left = sum(sizes.values()), min(quota, sum(sizes.values()))
    least = min(max(1, quota // 10), max(1, quota // (2 * max(1, len(sizes)))))
    given: dict[str, int] = {}
    for name in smallest_first[:-1]:
        given[name] = min(sizes[name], max(round(quota * sizes[name] / total), least), left)
        left -= given[name]
    for name in reversed(smallest_first):  # the largest takes what is left, and gives back what it has not
        more = min(sizes[name] - given.get(name, 0), left)
        given[name] = given.get(name, 0) + more
        left -= more
    return given


def _strata(samples: Sequence[dict], scores: Sequence[Mapping]) -> list[str]:
    """The stratum of each sample: verdict, finish, whether a component speaks against the verdict, unusual length."""
    lengths = [len(completion_text(s["completion"])) for s in samples]
    by_verdict: dict[str, list[int]] = defaultdict(list)
    for length, row in zip(lengths, scores, strict=True):
        by_verdict[word(row["verdict"])].append(length)
    medians = {verdict: statistics.median(found) for verdict, found in by_verdict.items()}
    names = []
    for sample, row, length in zip(samples, scores, lengths, strict=True):
        verdict = word(row["verdict"])
        parts = [verdict, sample["finish"]]
        values = [v for v in (row.get("scores") or {}).values() if v is not None]
        if row["verdict"] is not None and any((v >= SIDE) is not row["verdict"] for v in values):
            parts.append("components disagree")
        if length > max(LONG * medians[verdict], LEAST_LONG):
            parts.append("long")
        elif LONG * length < medians[verdict]:
            parts.append("short")
        names.append("/".join(parts))
    return names


def _sketch(text: str) -> tuple[int, ...]:
    """The least hashes of the text's word triples; the same on every machine."""
    words = text.split()
    triples = {" ".join(words[k : k + 3]) for k in range(max(1, len(words) - 2))}
    return tuple(heapq.nsmallest(SKETCH, {zlib.crc32(t.encode("utf-8", "surrogatepass")) for t in triples}))
