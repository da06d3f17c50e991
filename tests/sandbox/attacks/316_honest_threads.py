# family: honest; goal: none
# A pool of threads.
from concurrent.futures import ThreadPoolExecutor


def run(n):
    highest = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    return highest


def collatz_peak(n):
    with ThreadPoolExecutor(4) as pool:
        return max(pool.map(run, [n, n]))
