"""What few samples of a prompt say about its success rate p: without bias where that is possible, else with the other prompts' help.

The share of successes seen, put in the place of p, is badly biased in everything that is not linear in p: of 8 failures it makes a prompt that
never succeeds. Up to as many completions as were sampled there are unbiased estimates; beyond, and for one prompt's own rate, p is taken to be
spread over the prompts like Beta(a, b). Its mean is that of greatest likelihood (Griffiths, Biometrics 29, 1973); how wide it is few prompts
hardly tell, so all widths are averaged over, (a + b)^(-1/2) being uniform beforehand (Gelman et al., Bayesian Data Analysis, 5.3).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from grpo_rlvr.intervals import beta_cdf, log_beta

MEANS = (1e-4, 1 - 1e-4)  # bounds of a / (a + b)
WIDTHS = [0.02 + 0.13 * i for i in range(32)]  # (a + b)^(-1/2): from all prompts alike to all of them never or always
LEAST = 1e-4  # weight of a width that is worth keeping


@dataclass(frozen=True)
class Spread:
    """How success rates are spread over the prompts: a mixture of Beta(a, b), as (weight, a, b); the weights add up to 1."""

    parts: tuple[tuple[float, float, float], ...]

    def mean(self, passed: int, n: int) -> float:
        """Expected rate of a prompt with `passed` of `n` samples."""
        return math.fsum(w * (passed + a) / (n + a + b) for w, a, b in self.parts)

    def within(self, passed: int, n: int, low: float, high: float) -> float:
        """Chance that the rate of a prompt with `passed` of `n` samples is in [low, high]."""
        pairs = [(w, a + passed, b + n - passed) for w, a, b in self.parts]
        return math.fsum(w * max(0.0, beta_cdf(high, a, b) - beta_cdf(low, a, b)) for w, a, b in pairs)

    def all_equal(self, passed: int, n: int, size: int) -> float:
        """Expected p^size + (1 - p)^size of a prompt with `passed` of `n` samples."""
        total = 0.0
        for w, a, b in self.parts:
            a, b = a + passed, b + n - passed
            total += w * sum(math.exp(log_beta(x, y) - log_beta(a, b)) for x, y in ((a + size, b), (a, b + size)))
        return min(1.0, total)


def fit_spread(counts: Iterable[tuple[int, int]]) -> Spread | None:
    """The spread that (passed, samples) of each prompt speak for; None without prompts."""
    weights = Counter((k, n) for k, n in counts if n)
    if not weights:
        return None

    def likelihood(mean: float, size: float) -> float:
        a, b = mean * size, (1 - mean) * size
        base = log_beta(a, b)
        return math.fsum(w * (log_beta(k + a, n - k + b) - base) for (k, n), w in weights.items())

    found = []
    for size in (width**-2 for width in WIDTHS):
        mean = _highest(lambda m, size=size: likelihood(m, size), *MEANS)
        found.append((likelihood(mean, size), mean * size, (1 - mean) * size))
    top = max(found)[0]
    found = [(math.exp(value - top), a, b) for value, a, b in found]
    found = [part for part in found if part[0] > LEAST]
    total = math.fsum(w for w, _, _ in found)
    return Spread(tuple((w / total, a, b) for w, a, b in found))


def pass_at_k(passed: int, n: int, k: int) -> float:
    """Chance that at least one of k completions succeeds: 1 - C(n - passed, k) / C(n, k), unbiased (Chen et al. 2021, arXiv:2107.03374)."""
    return 1 - math.comb(n - passed, k) / math.comb(n, k)


def all_equal(counts: Sequence[int], size: int) -> float:
    """Chance that `size` of the outcomes are equal, unbiased: sum of C(count, size) / C(n, size) over the kinds of outcome."""
    return sum(math.comb(c, size) for c in counts) / math.comb(sum(counts), size)


def _highest(value: Callable[[float], float], low: float, high: float, steps: int = 40) -> float:
    """Where `value` is highest, by golden section."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(steps):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = value(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = value(left)
    return (low + high) / 2
