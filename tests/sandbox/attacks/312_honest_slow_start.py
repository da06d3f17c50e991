# family: honest; goal: none
# Takes 0.3 seconds to load.
import time

time.sleep(0.3)


def collatz_peak(n):
    highest = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    return highest
