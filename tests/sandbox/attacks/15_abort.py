# family: exit; goal: harm
# Dies with a core dump.
import os


def collatz_peak(n):
    os.abort()
