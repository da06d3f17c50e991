"""The Python that candidates run on, and the files it needs to be seen."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grpo_rlvr.errors import MissingError, Problem, UserError

NOBODY = 65534
OLDEST = (3, 8)
_ASK = (
    "import json,os,sys,sysconfig as s;"
    "print(json.dumps([list(sys.version_info[:3]),os.path.realpath(sys.executable),sys.prefix,sys.base_prefix,"
    "s.get_path('stdlib'),s.get_config_var('LIBDIR') or '']))"
)


@dataclass(frozen=True)
class Interpreter:
    """`path` as it is started, its version, whether installed packages are visible, the paths that must be readable, and the symbolic links
    on the way from `path` to the binary that lie in none of them, as (target, link)."""

    path: str
    version: tuple[int, int, int]
    packages: bool
    files: tuple[str, ...]
    links: tuple[tuple[str, str], ...] = ()

    @property
    def flags(self) -> list[str]:
        # One hash seed for all, so that a verdict never depends on the order of a set.
        return ["-s", "-B", *([] if self.packages else ["-S"])]


def find_interpreter(wanted: str | None, uid: int) -> Interpreter:
    """The interpreter for candidates that the user `uid` can reach.

    Args:
        wanted: a path, whose installed packages candidates may then import; by default the one that runs this, else the system's,
            with the standard library alone.
    """
    if wanted is not None:
        path = os.path.abspath(os.path.expanduser(wanted))
        if path.startswith("/tmp/"):
            raise UserError("config", Problem("python", f"{wanted!r} is under /tmp, which is empty in the sandbox", "put the environment elsewhere"))
        found = _ask(path)
        if found is None:
            raise UserError("config", Problem("python", f"{wanted!r} does not run", f"give the path of a Python {OLDEST[0]}.{OLDEST[1]} or newer"))
        interpreter = _interpreter(path, found, packages=True)
        blocked = _unreachable(interpreter, uid)
        if blocked:
            raise UserError("config", Problem("python", f"the sandbox's user cannot reach {blocked}", f"chmod o+x {blocked}, or give another"))
        return interpreter
    blocked = []
    for path in (sys._base_executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        found = _ask(path) if path and os.path.exists(path) else None
        if found is None or tuple(found[0]) < OLDEST:
            continue
        interpreter = _interpreter(path, found, packages=False)
        where = _unreachable(interpreter, uid)
        if where is None:
            return interpreter
        blocked.append(where)
    message = f"no Python that an unprivileged user can reach ({', '.join(dict.fromkeys(blocked)) or 'none found'} is closed to others)"
    raise MissingError("sandbox", Problem("python", message, "apt install python3-minimal, or run as an ordinary user"))


@cache
def _ask(path: str) -> list | None:
    try:
        done = subprocess.run([path, "-E", "-s", "-c", _ASK], capture_output=True, timeout=30, encoding="utf-8")  # noqa: S603  (a list, no shell)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _interpreter(path: str, found: list, packages: bool) -> Interpreter:
    version, real, prefix, base, stdlib, libdir = found
    files = [real, stdlib]
    if base not in ("/usr", "/"):
        files += [libdir, os.path.join(base, "lib")]
    if packages:
        files.append(prefix if prefix not in ("/usr", "/usr/local") else os.path.join(prefix, "lib"))
    kept = [f for f in dict.fromkeys(files) if f and os.path.exists(f)]
    # A path below one that is already there needs no place of its own.
    outer = [f for f in kept if not any(f != g and f.startswith(g.rstrip("/") + "/") for g in kept)]
    return Interpreter(path if packages else real, tuple(version), packages, tuple(outer), tuple(_links(path, outer)) if packages else ())


def _links(path: str, files: list[str]) -> list[tuple[str, str]]:
    found = []
    while os.path.islink(path):
        target = os.readlink(path)
        if not any(path.startswith(file.rstrip("/") + "/") for file in files):
            found.append((target, path))
        path = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return found


def _unreachable(interpreter: Interpreter, uid: int) -> str | None:
    """The first path on the way to the interpreter that the user cannot pass."""
    if uid == os.getuid():
        return None
    for file in interpreter.files:
        for path in [*reversed(Path(file).parents), Path(file)]:
            if not os.stat(path).st_mode & stat.S_IXOTH:
                return str(path)
    return None
