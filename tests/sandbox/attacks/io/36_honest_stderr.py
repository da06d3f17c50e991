# family: honest; goal: none
# A megabyte of remarks on the other stream, and white space at the ends of lines.
import sys

sys.stderr.write("reading\n" * 130_000)
print(sum(map(int, sys.stdin.read().split())), "  ")
print()
