# family: honest; goal: none
# 0.3 seconds before it reads.
import sys
import time

time.sleep(0.3)
print(sum(map(int, sys.stdin.read().split())))
