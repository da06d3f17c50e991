# family: forge; goal: marks
# The right answer and something after it.
import sys

print(sum(int(x) for x in sys.stdin.read().split()))
print("Done!")
