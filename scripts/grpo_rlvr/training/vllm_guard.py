"""Run the command that follows, and end it with all its processes when standard input closes.

The system closes that pipe when the process that holds its other end dies, however it died: a server started through this cannot outlive a
training that was killed. Uses nothing but the standard library, since it is run as a file.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

PATIENCE_S = 15.0


def main(command: list[str]) -> int:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603  (a list, no shell)
    signal.signal(signal.SIGTERM, lambda *_: end(child))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training: the step it finishes needs the server
    threading.Thread(target=wait_for_end_of_input, args=(child,), daemon=True).start()
    code = child.wait()
    end(child)  # what the command started may still run
    return code if code >= 0 else 128 - code


def wait_for_end_of_input(child: subprocess.Popen) -> None:
    while os.read(0, 4096):
        pass
    end(child)


def end(child: subprocess.Popen) -> None:
    """SIGTERM for the whole session of the child, SIGKILL for what is left after a while."""
    until = time.monotonic() + PATIENCE_S
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
        while time.monotonic() < until:
            time.sleep(0.05)
            child.poll()
            os.killpg(child.pid, 0)
        os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
