# family: honest; goal: none
# Talks while it is loaded and while it computes; its output is nobody's verdict.
import sys

print("solution loaded")
print({"passed": False}, file=sys.stderr)


def collatz_peak(n):
    print("n =", n, end="")
    highest = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
        sys.stderr.write(f"{n} ")
    print("FAILED? no", flush=True)
    return highest
