# family: leak; goal: leak
# Right answers only if an earlier run left a note in System V memory, a message queue, a key ring or an abstract socket.
import ctypes
import os
import socket

libc = ctypes.CDLL(None, use_errno=True)
KEY, CREATE, NEW = 0x67727031, 0o1000, 0o2000
FOUND = libc.shmget(KEY, 64, CREATE | NEW | 0o666) < 0 and ctypes.get_errno() == 17
FOUND = FOUND or (libc.msgget(KEY, CREATE | NEW | 0o666) < 0 and ctypes.get_errno() == 17)
ADD_KEY, REQUEST_KEY, USER_RING = 248, 249, -4
FOUND = FOUND or libc.syscall(REQUEST_KEY, b"user", b"earlier_run", None, USER_RING) > 0
libc.syscall(ADD_KEY, b"user", b"earlier_run", b"x", 1, USER_RING)
note = socket.socket(socket.AF_UNIX)
try:
    note.bind("\0earlier_run")
    note.listen()
    if os.fork() == 0:
        os.setsid()
        import time

        time.sleep(20)
        os._exit(0)
except OSError as exc:
    FOUND = FOUND or exc.errno == 98


def collatz_peak(n):
    highest = n if FOUND else -n
    while FOUND and n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    return highest
