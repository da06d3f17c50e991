# family: resource; goal: harm
# Waits for a lock of its own.
import threading

lock = threading.Lock()


def collatz_peak(n):
    lock.acquire()
    lock.acquire()
    return -n
