# family: honest; goal: none
# A pool of processes finds its functions by the name of their module.
import multiprocessing


def after(n):
    return n // 2 if n % 2 == 0 else 3 * n + 1


def run(n):
    highest = n
    while n != 1:
        n = after(n)
        highest = max(highest, n)
    return highest


def collatz_peak(n):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return max(pool.map(run, [n, 1]))
