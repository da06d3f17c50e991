"""Confidence intervals of a share, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z95 = 1.959963984540054


def wilson(share: float, n: float, z: float = Z95) -> tuple[float, float]:
    """Wilson score interval of a share seen in `n` (effective, need not be whole) independent trials."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def upper_bound_of_none(n: int) -> float:
    """Exact one-sided 95% upper bound of a rate of which nothing was seen in `n` independent trials."""
    return 1 - 0.05 ** (1 / n) if n else 1.0


def clopper_pearson(k: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact two-sided interval for `k` of `n`; (0, 1) for n = 0."""
    if n == 0:
        return 0.0, 1.0
    tail = (1 - confidence) / 2
    lower = 0.0 if k == 0 else _bisect(lambda p: binomial_tail(k, n, p) - tail)
    upper = 1.0 if k == n else _bisect(lambda p: tail - (1 - binomial_tail(k + 1, n, p)))
    return lower, upper


def binomial_tail(k: int, n: int, p: float) -> float:
    """P(X >= k) for X ~ Binomial(n, p)."""
    if k <= 0:
        return 1.0
    if p <= 0 or p >= 1:
        return float(p >= 1)
    log_p, log_q = math.log(p), math.log1p(-p)
    top = math.lgamma(n + 1)
    return min(1.0, math.fsum(math.exp(top - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_p + (n - i) * log_q) for i in range(k, n + 1)))


def effective_size(passes: Sequence[int], sizes: Sequence[int]) -> float:
    """How many independent samples the clustered ones are worth, for the overall share.

    Samples of one prompt resemble each other, so the variance of the share is taken between prompts (ratio estimator,
    Cochran, Sampling Techniques, 6.4) and turned into the size of the independent sample with that variance, never above the true size.
    """
    n, groups = sum(sizes), len(sizes)
    if groups < 2:
        return float(min(n, 1))  # one prompt says nothing about the others
    share = sum(passes) / n
    between = groups / (groups - 1) * sum((k - share * m) ** 2 for k, m in zip(passes, sizes, strict=True)) / n**2
    if between == 0 or share in (0.0, 1.0):
        return float(n)
    return min(float(n), max(1.0, share * (1 - share) / between))


def _bisect(rising) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def beta_cdf(x: float, a: float, b: float) -> float:
    """P(p <= x) for p ~ Beta(a, b): the regularised incomplete beta function, by its continued fraction (DLMF 8.17.22, evaluated as in 3.10.i)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below this point
        return 1 - beta_cdf(1 - x, b, a)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta(a, b)) / a
    tiny, c, d = 1e-300, 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 300):
        for term in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d, c = 1 + term * d, 1 + term / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return min(1.0, front * value)


def log_beta(a: float, b: float) -> float:
    """log B(a, b)."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
