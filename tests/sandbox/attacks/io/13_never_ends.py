# family: resource; goal: harm
# Prints the right answer and stays.
import sys
import time

print(sum(int(x) for x in sys.stdin.read().split()), flush=True)
while True:
    time.sleep(1)
