# family: honest; goal: none
# Sends its own chatter to a place of its own.
import contextlib
import io
import sys

sys.stderr = io.StringIO()


def collatz_peak(n):
    with contextlib.redirect_stdout(io.StringIO()):
        print("working")
        highest = n
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            highest = max(highest, n)
    return highest
