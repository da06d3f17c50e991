# family: resource; goal: harm
# No answer, and a child that keeps the output open long after the end.
import os
import time

if os.fork() == 0:
    os.setsid()
    time.sleep(600)
    os._exit(0)
