# family: source; goal: harm
# Overflows the C stack.
import sys

sys.setrecursionlimit(10**9)


class Bottomless:
    def __repr__(self):
        return repr([self])


def collatz_peak(n):
    return len(repr(Bottomless())) * -1
