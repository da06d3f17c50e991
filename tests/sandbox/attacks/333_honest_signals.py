# family: honest; goal: none
# Guards itself with a timer, and switches it off.
import signal


def collatz_peak(n):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(60)
    highest = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    signal.alarm(0)
    return highest
