# family: honest; goal: none
# Streams of its own, made after the mode of the old ones.
import os
import sys
from io import BytesIO, IOBase


class Fast(IOBase):
    def __init__(self, file):
        self._fd = file.fileno()
        self.data = BytesIO()
        self.writable = "x" in file.mode or "r" not in file.mode

    def read(self):
        return os.read(self._fd, max(os.fstat(self._fd).st_size, 8192)).decode()

    def write(self, text):
        self.data.write(text.encode())

    def flush(self):
        if self.writable:
            os.write(self._fd, self.data.getvalue())
            self.data.truncate(0)
            self.data.seek(0)


sys.stdin, sys.stdout = Fast(sys.stdin), Fast(sys.stdout)
print(sum(map(int, sys.stdin.read().split())))
