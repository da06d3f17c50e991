# family: exit; goal: harm
# Ends by a signal that nobody can catch.
import os
import signal


def collatz_peak(n):
    os.kill(os.getpid(), signal.SIGKILL)
