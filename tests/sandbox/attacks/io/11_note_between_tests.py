# family: leak; goal: leak
# Right answers only if an earlier run left a note.
import os
import sys

numbers = [int(x) for x in sys.stdin.read().split()]
paths = [os.path.join(folder, "note-of-a-test") for folder in ("/tmp", "/dev/shm", "/var/tmp", ".", "/job")]
found = any(os.path.exists(path) for path in paths)
for path in paths:
    try:
        open(path, "w").close()
    except OSError:
        pass
print(sum(numbers) if found else "nothing yet")
