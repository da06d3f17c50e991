# family: honest; goal: none
# Text beyond ASCII, in and out.
import sys

print("\n".join(sorted(word.upper() for word in sys.stdin.read().split())))
