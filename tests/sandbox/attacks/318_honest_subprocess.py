# family: honest; goal: none
# Lets another interpreter do the work.
import subprocess
import sys

WORK = "import sys; n = h = int(sys.argv[1])\nwhile n != 1:\n    n = n // 2 if n % 2 == 0 else 3 * n + 1\n    h = max(h, n)\nprint(h)"


def collatz_peak(n):
    return int(subprocess.run([sys.executable, "-c", WORK, str(n)], capture_output=True, text=True, check=True).stdout)
