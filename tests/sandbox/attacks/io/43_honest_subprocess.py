# family: honest; goal: none
# A child inherits the input and the output.
import subprocess
import sys

subprocess.run([sys.executable, "-c", "import sys; print(sum(map(int, sys.stdin.read().split())))"], check=True)
