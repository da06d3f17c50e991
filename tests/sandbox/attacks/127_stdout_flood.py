# family: resource; goal: harm
# Up to 4 GB of output.
import sys


def collatz_peak(n):
    text = "x" * 1_000_000
    for _ in range(4000):
        sys.stdout.write(text)
    return -n
