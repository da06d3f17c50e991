# family: honest; goal: none
# A decorator of its own around the function.
import functools


def checked(function):
    @functools.wraps(function)
    def inner(n):
        if n < 1:
            raise ValueError(n)
        return function(n)

    return inner


@checked
def collatz_peak(n):
    highest = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    return highest
