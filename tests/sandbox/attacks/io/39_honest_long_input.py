# family: honest; goal: none
# Input longer than a pipe holds.
import sys

print(len(sys.stdin.readline().strip()))
