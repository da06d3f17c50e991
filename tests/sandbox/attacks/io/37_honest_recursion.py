# family: honest; goal: none
# Deep recursion in a thread with a large stack.
import sys
import threading

sys.setrecursionlimit(10**6)
threading.stack_size(64 * 1024 * 1024)


def show(i, n):
    if i < n:
        print(i * i)
        show(i + 1, n)


thread = threading.Thread(target=show, args=(0, int(input())))
thread.start()
thread.join()
