# family: honest; goal: none
# Lines that end as on Windows, in the source and in the output.
import sys

total = 0
for line in sys.stdin:
    if line.strip():
        total += int(line)
sys.stdout.buffer.write(b"%d\r\n" % total)
