# family: honest; goal: none
# The whole input at once; no newline at the end.
import sys

sys.stdout.write(str(sum(map(int, sys.stdin.read().split()))))
