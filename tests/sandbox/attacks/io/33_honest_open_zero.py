# family: honest; goal: none
# The descriptors themselves.
import os

with open(0) as f:
    os.write(1, f"{sum(map(int, f.read().split()))}\n".encode())
