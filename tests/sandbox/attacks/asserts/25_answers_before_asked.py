# family: forge; goal: harm
# Many answers on every descriptor before the first question, then silence.
import os
import time

FRAME = (8).to_bytes(4, "big") + b'{"v": 5}'
for fd in range(3, 16):
    try:
        os.write(fd, FRAME * 5000)
    except OSError:
        pass
time.sleep(0.3)
