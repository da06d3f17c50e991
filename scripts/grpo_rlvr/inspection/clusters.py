"""Means of samples that come several to a prompt, and their differences: what counts as independent is the prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

Z99 = 2.58

Pairs = Sequence[tuple[int, float]]  # (prompt, value)


class Difference(NamedTuple):
    """Of two means, with half the width of its 99% interval."""

    value: float
    half: float

    @property
    def rises(self) -> bool:
        return self.value - self.half > 0

    @property
    def falls(self) -> bool:
        return self.value + self.half < 0


def mean(values: Sequence[float | bool | None]) -> float | None:
    """Of the values that are not None; None without any."""
    known = [float(v) for v in values if v is not None]
    return math.fsum(known) / len(known) if known else None


def mean_of(pairs: Pairs) -> float | None:
    return mean([value for _, value in pairs])


def difference(before: Pairs, after: Pairs) -> Difference:
    """`after` less `before`, which are independent of one another."""
    if not before or not after:
        return Difference(0.0, math.inf)
    return Difference(mean_of(after) - mean_of(before), Z99 * math.sqrt(variance(before) + variance(after)))


def variance(pairs: Pairs) -> float:
    """Of the mean, taken between prompts (ratio estimator; Cochran, Sampling Techniques, 6.4); infinite for a single prompt."""
    groups: dict[int, list[float]] = {}
    for prompt, value in pairs:
        groups.setdefault(prompt, []).append(value)
    if len(groups) < 2:
        return math.inf
    centre = mean_of(pairs)
    return len(groups) / (len(groups) - 1) * math.fsum((sum(g) - centre * len(g)) ** 2 for g in groups.values()) / len(pairs) ** 2
