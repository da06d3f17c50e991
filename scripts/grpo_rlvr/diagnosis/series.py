"""Numbers of one metric over the steps, and the few statistics that the rules need. Plain Python; a log may have 100,000 steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Series:
    """The finite values of a metric, by step. Missing and non-finite values are left out."""

    steps: Sequence[int]
    values: Sequence[float]

    def __len__(self) -> int:
        return len(self.values)

    def part(self, begin: float, end: float) -> Series:
        """The values from share `begin` to share `end` of the run; at least 3 if there are as many."""
        n = len(self.values)
        first, last = round(begin * n), round(end * n)
        if last - first < 3:
            first, last = (max(0, last - 3), last) if end >= 1 else (first, min(n, first + 3))
        return Series(self.steps[first:last], self.values[first:last])

    @cached_property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    @cached_property
    def median(self) -> float:
        return quantile(self.values, 0.5)

    @property
    def min(self) -> float:
        return min(self.values)

    @property
    def max(self) -> float:
        return max(self.values)

    @cached_property
    def early(self) -> Series:
        """The first sixth: long enough for a mean, short enough to be the beginning."""
        return self.part(0, 1 / 6)

    @cached_property
    def late(self) -> Series:
        """The last fifth."""
        return self.part(0.8, 1)

    @cached_property
    def change(self) -> float:
        """Mean of the last fifth minus mean of the first sixth."""
        return self.late.mean - self.early.mean

    @cached_property
    def noise(self) -> float:
        """Standard error of `change`, from the scatter around a smoothed curve, doubled for what neighbours share."""
        if len(self) < 8:
            return math.inf
        scatter = math.sqrt(math.fsum((b - a) ** 2 for a, b in zip(self.values, self.values[1:], strict=False)) / (2 * (len(self) - 1)))
        return 2 * scatter * math.sqrt(1 / len(self.early) + 1 / len(self.late))

    def rose(self, by: float, sigmas: float = 3.0) -> bool:
        """Whether the change is at least `by` and beyond the noise."""
        return len(self) >= 8 and self.change >= by and self.change > sigmas * self.noise

    def fell(self, by: float, sigmas: float = 3.0) -> bool:
        return len(self) >= 8 and -self.change >= by and -self.change > sigmas * self.noise

    @cached_property
    def smooth(self) -> Series:
        """Means of at most 40 stretches of equal length."""
        width = max(1, math.ceil(len(self) / 40))
        starts = range(0, len(self), width)
        blocks = [self.values[i : i + width] for i in starts]
        return Series([self.steps[min(i + width, len(self)) - 1] for i in starts], [math.fsum(b) / len(b) for b in blocks])

    def first_step(self, test) -> int | None:
        """The step from which on all smoothed values pass `test`; None if the last one does not."""
        found = None
        for step, value in zip(self.smooth.steps, self.smooth.values, strict=True):
            if not test(value):
                found = None
            elif found is None:
                found = step
        return found


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie, interpolated."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Pearson's r; None where one of the two never varies."""
    if len(x) < 8:
        return None
    mx, my = math.fsum(x) / len(x), math.fsum(y) / len(y)
    sxx, syy = math.fsum((a - mx) ** 2 for a in x), math.fsum((b - my) ** 2 for b in y)
    if sxx <= 1e-18 or syy <= 1e-18:
        return None
    return math.fsum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / math.sqrt(sxx * syy)


def detrended_correlation(x: Series, y: Series) -> float | None:
    """Correlation of the changes from step to step: two metrics that only share a trend have none."""
    shared = dict(zip(y.steps, y.values, strict=True))
    pairs = [(a, shared[s]) for s, a in zip(x.steps, x.values, strict=True) if s in shared]
    dx = [b[0] - a[0] for a, b in zip(pairs, pairs[1:], strict=False)]
    dy = [b[1] - a[1] for a, b in zip(pairs, pairs[1:], strict=False)]
    return correlation(dx, dy)
