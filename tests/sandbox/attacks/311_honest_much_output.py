# family: honest; goal: none
# A megabyte on each of the two streams, more than a pipe holds.
import os
import sys

sys.stdout.write("debug " * 170_000)
sys.stdout.flush()
os.write(2, b"e" * 50_000)
for _ in range(20):
    sys.stderr.write("trace " * 8_000)


def collatz_peak(n):
    highest = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    return highest
