# family: honest; goal: none
# Bytes in, bytes out.
import sys

sys.stdout.buffer.write(b"%d\n" % sum(map(int, sys.stdin.buffer.read().split())))
