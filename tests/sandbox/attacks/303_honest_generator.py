# family: honest; goal: none
# With a generator and the annotations of a recent Python.
from __future__ import annotations

from collections.abc import Iterator


def steps(n: int) -> Iterator[int]:
    yield n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        yield n


def collatz_peak(n: int) -> int:
    return max(steps(n))
