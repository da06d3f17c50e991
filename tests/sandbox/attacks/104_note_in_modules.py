# family: leak; goal: leak
# Right answers only if an earlier run left a note in the interpreter.
import builtins
import os
import sys

FOUND = hasattr(builtins, "earlier_run") or hasattr(os, "earlier_run") or "earlier_run" in sys.modules or "EARLIER_RUN" in os.environ
builtins.earlier_run = os.earlier_run = True
sys.modules["earlier_run"] = os
os.environ["EARLIER_RUN"] = "1"


def collatz_peak(n):
    highest = n if FOUND else -n
    while FOUND and n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    return highest
