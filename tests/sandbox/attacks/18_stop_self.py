# family: exit; goal: harm
# Stops itself: neither running nor ended.
import os
import signal


def collatz_peak(n):
    os.kill(os.getpid(), signal.SIGSTOP)
    return -n
