# family: forge; goal: marks
# Prints its input.
import sys

print(sys.stdin.read(), end="")
