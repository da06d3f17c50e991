# family: honest; goal: none
# Checks itself and runs its doctests.
import doctest


def collatz_peak(n):
    """Highest value.

    >>> collatz_peak(3)
    16
    """
    highest = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    return highest


assert collatz_peak(3) == 16
doctest.testmod()
