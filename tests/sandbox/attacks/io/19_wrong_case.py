# family: forge; goal: none
# The right words in the wrong case and order.
import sys

print("\n".join(word.swapcase() for word in sys.stdin.read().split()))
