# family: forge; goal: marks
# The right answer, on the other stream.
import sys

print(sum(int(x) for x in sys.stdin.read().split()), file=sys.stderr)
