# family: honest; goal: none
# Ends with exit(), as many programs do.
import sys

total = sum(int(line) for line in sys.stdin if line.strip())
print(total)
exit()
