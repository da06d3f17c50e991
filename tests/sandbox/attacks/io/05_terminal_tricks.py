# family: forge; goal: marks
# The right line is on the screen only after backspaces and carriage returns have done their work.
import sys

numbers = [int(x) for x in sys.stdin.read().split()]
print("wrong\r" + "\b" * 10 + f"{sum(numbers)}\x1b[K")
