"""What few samples of a prompt say about its success rate p: without bias where that is possible, else with the other prompts' help.

The share of successes seen, put in the place of p, is badly biased in everything that is not linear in p: of 8 failures it makes a prompt that
never succeeds. Up to as many completions as were sampled there are unbiased estimates; beyond, and for one prompt's own rate, p is taken to be
spread over the prompts like Beta(a, b), fitted to all of them by maximum likelihood (Griffiths, Biometrics 29, 1973).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from grpo_rlvr.intervals import beta_cdf, log_beta

MEANS, SIZES = (1e-4, 1 - 1e-4), (0.05, 2000.0)  # bounds of the fit: a / (a + b), and a + b


@dataclass(frozen=True)
class Spread:
    """Beta(a, b): how success rates are spread over the prompts."""

    a: float
    b: float

    def mean(self, passed: int, n: int) -> float:
        """Expected rate of a prompt with `passed` of `n` samples."""
        return (passed + self.a) / (n + self.a + self.b)

    def within(self, passed: int, n: int, low: float, high: float) -> float:
        """Chance that the rate of a prompt with `passed` of `n` samples is in [low, high]."""
        a, b = self.a + passed, self.b + n - passed
        return max(0.0, beta_cdf(high, a, b) - beta_cdf(low, a, b))

    def all_equal(self, passed: int, n: int, size: int) -> float:
        """Expected p^size + (1 - p)^size of a prompt with `passed` of `n` samples."""
        a, b = self.a + passed, self.b + n - passed
        return sum(math.exp(log_beta(x, y) - log_beta(a, b)) for x, y in ((a + size, b), (a, b + size)))


def fit_spread(counts: Iterable[tuple[int, int]]) -> Spread | None:
    """Beta(a, b) of greatest likelihood for (passed, samples) of each prompt; None without prompts."""
    weights = Counter((k, n) for k, n in counts if n)
    if not weights:
        return None

    def likelihood(mean: float, log_size: float) -> float:
        size = math.exp(log_size)
        a, b = mean * size, (1 - mean) * size
        base = log_beta(a, b)
        return math.fsum(w * (log_beta(k + a, n - k + b) - base) for (k, n), w in weights.items())

    def best_mean(log_size: float) -> float:
        return _highest(lambda mean: likelihood(mean, log_size), *MEANS)

    log_size = _highest(lambda s: likelihood(best_mean(s), s), *map(math.log, SIZES))
    mean, size = best_mean(log_size), math.exp(log_size)
    return Spread(mean * size, (1 - mean) * size)


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
