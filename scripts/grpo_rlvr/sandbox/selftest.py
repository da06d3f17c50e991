"""Whether a sandbox keeps what it promises on this machine, found out by trying to break it."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import tempfile
import time
from pathlib import Path

from grpo_rlvr.sandbox.backends import Backend, Bubblewrap, Engine
from grpo_rlvr.sandbox.inside.values import Opaque
from grpo_rlvr.sandbox.limits import Limits
from grpo_rlvr.sandbox.process import Sandbox, SandboxFault
from grpo_rlvr.sandbox.tasks import Calls, Returned

PROBES = """
import os, socket, sys

def add(a, b):
    return a + b

def leave(*_):
    os._exit(0)

class Equal:
    def __eq__(self, other):
        return True

def equal(*_):
    return Equal()

def environment(*_):
    found = []
    for name in os.listdir("/proc"):
        try:
            found.append(open("/proc/%s/environ" % name).read())
        except (OSError, ValueError):
            pass
    return "".join(found) + repr(dict(os.environ))

def files(paths):
    return [path for path in paths if os.path.exists(path)]

def connect(port):
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port))

def allocate(mib):
    try:
        return len(bytearray(mib << 20))
    except MemoryError:
        return 0

def fork(most):
    count = 0
    try:
        while count < most:
            if os.fork() == 0:
                import time
                time.sleep(60)
                os._exit(0)
            count += 1
    except OSError:
        pass
    return count

def fill(mib):
    written = 0
    for folder in ("/tmp", "/dev/shm", "/", os.path.expanduser("~"), "/var/tmp", "."):
        for number in range(100):
            try:
                with open("%s/filler%d" % (folder, number), "xb") as f:
                    for _ in range(mib):
                        f.write(b"x" * 1048576)
                        f.flush()
                        written += 1
                        if written > mib:
                            return written
            except OSError:
                break
    return written

def daemon(name):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            import ctypes, signal, time
            for number in range(1, 65):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
            time.sleep(600)
        os._exit(0)
    return 1

def forever(*_):
    while True:
        pass
"""


def broken_promises(backend: Backend, limits: Limits) -> list[str]:
    """What the sandbox does not keep, in words; empty if all is well. SandboxFault if it does not even start."""
    broken: list[str] = []
    quick = Limits(0.5, limits.memory_mib, limits.processes, limits.tmp_mib, limits.output_mib)
    token = secrets.token_hex(4)

    def ask(entry: str, *args: object) -> object:
        """What one call gives, or why it gave nothing, as an exception."""
        nonlocal sandbox
        if sandbox.closed:
            sandbox = Sandbox(backend, quick)
        answer = Calls(PROBES, entry, [(args, {})]).run(sandbox)
        if len(answer.results) == 1 and isinstance(answer.results[0], Returned):
            return answer.results[0].value
        return SandboxFault(answer.why or answer.reason)

    sandbox = Sandbox(backend, quick)
    try:
        if ask("add", 20, 22) != 42:
            broken.append("an honest call does not give its value")
        for entry in ("leave", "forever"):
            if not isinstance(ask(entry), SandboxFault):
                broken.append(f"a call that {'leaves' if entry == 'leave' else 'never returns'} counts as an answer")
        if not isinstance(ask("equal"), Opaque):
            broken.append("an object crosses as something else than an opaque one")
        environment = str(ask("environment"))
        seen = [name for name, value in os.environ.items() if len(value) >= 8 and f"{name}={value}" in environment]
        if seen:
            broken.append(f"the environment is visible ({seen[0]})")
        with tempfile.NamedTemporaryFile(prefix="grpo-rlvr-") as file:
            visible = ask("files", _hidden(backend, file.name))
        if visible != []:
            broken.append(f"files of the host are visible ({visible})")
        with _listener() as port:
            if ask("connect", port) == 0:
                broken.append("the network of the host can be reached")
        if ask("allocate", 2 * limits.memory_mib) != 0:
            broken.append(f"a process can have more than {limits.memory_mib} MiB")
        forked = ask("fork", limits.processes + 16)
        if not isinstance(forked, int) or forked > limits.processes:
            broken.append(f"{forked} processes can be started; the limit is {limits.processes}")
        written = ask("fill", 2 * limits.tmp_mib + 32)
        if not isinstance(written, int) or written > limits.tmp_mib + 17:
            broken.append(f"{written} MiB of files can be written; the limit is {limits.tmp_mib} and 16")
        ask("daemon", f"left{token}")
        if _is_running(f"left{token}"):
            broken.append("a process in the background outlives its job")
    finally:
        sandbox.close()
    return broken


def _hidden(backend: Backend, made: str) -> list[str]:
    """Files of the host that must not be seen."""
    shown = backend.python.files if isinstance(backend, Bubblewrap) else ()
    paths = [made, str(Path(__file__).resolve())]
    if not isinstance(backend, Engine):  # an image has such files of its own
        paths += ["/etc/shadow", "/var/log", str(Path.home()), str(Path.cwd())]
    ours = ("/", "/tmp", "/dev", "/proc", "/usr", "/lib", "/etc")
    return [p for p in paths if os.path.exists(p) and p not in ours and not any(p.startswith(f) or f.startswith(p + "/") for f in shown)]


@contextlib.contextmanager
def _listener():
    """A port of this machine that takes connections."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def _is_running(name: str) -> bool:
    """Whether a process of that name is still there after a moment's grace."""
    for _ in range(20):
        names = set()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                names.add((folder / "comm").read_text(encoding="utf-8", errors="replace").strip())
        if name not in names:
            return False
        time.sleep(0.05)
    return True
