# family: honest; goal: none
# Deep recursion through a cache, which is written in C.
import sys
from functools import lru_cache

sys.setrecursionlimit(10**6)


@lru_cache(maxsize=None)
def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


def collatz_peak(n):
    assert depth(60_000) == 60_000
    peak = n
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        peak = max(peak, n)
    return peak
