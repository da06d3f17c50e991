"""Finds a sandbox that keeps its promises on this machine, and keeps one pool of it for each set of settings."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from grpo_rlvr.errors import MissingError, Problem
from grpo_rlvr.sandbox.backends import IMAGE, INSTALL, Backend, candidates
from grpo_rlvr.sandbox.limits import Limits
from grpo_rlvr.sandbox.pool import Pool
from grpo_rlvr.sandbox.process import SandboxFault
from grpo_rlvr.sandbox.selftest import broken_promises

_lock = threading.Lock()
_backends: dict[tuple, Backend] = {}
_pools: dict[tuple, Pool] = {}


def find_backend(sandbox: str | Sequence[str] = "auto", limits: Limits | None = None, python: str | None = None, image: str = IMAGE) -> Backend:
    """The first backend that `sandbox` allows and that passes its self-test.

    Args:
        sandbox: "auto" (bubblewrap, then Docker, then Podman), the name of one, or a command that runs the command after it in isolation.
        python: interpreter for candidates, with the packages that they may import; by default the standard library alone.
        image: image for Docker and Podman; needs a `python3` of 3.8 or newer.

    Raises:
        MissingError: none is there or keeps its promises; says what each lacks and how to get one.
        UserError: a value that makes no sense.
    """
    limits = limits or Limits()
    problems = []
    for name, backend in candidates(sandbox, python, image):
        if isinstance(backend, MissingError):
            problems += [Problem(name, p.message, p.fix) for p in backend.problems]
            continue
        try:
            broken = broken_promises(backend, limits)
        except SandboxFault as exc:
            problems.append(Problem(name, f"does not start: {exc}", _advice(str(exc))))
            continue
        if not broken:
            return backend
        problems += [Problem(name, promise, "untrusted code is not run there") for promise in broken]
    raise MissingError("sandbox", problems or [Problem("sandbox", "there is no way to isolate code on this machine", INSTALL)])


def open_pool(
    sandbox: str | Sequence[str] = "auto", limits: Limits | None = None, workers: int | None = None, python: str | None = None, image: str = IMAGE
) -> Pool:
    """The pool of this process for these settings, made when it is first asked for; see `find_backend`."""
    limits = limits or Limits()
    workers = workers or min(16, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    kind = (sandbox if isinstance(sandbox, str) else tuple(sandbox), python, image)
    key = (os.getpid(), *kind, limits, workers)
    with _lock:
        pool = _pools.get(key)
        if pool is None or pool.closed:
            if kind not in _backends:
                _backends[kind] = find_backend(sandbox, limits, python, image)
            pool = _pools[key] = Pool(_backends[kind], limits, workers)
        return pool


def _advice(said: str) -> str:
    if any(words in said.lower() for words in ("permission denied", "operation not permitted", "no permissions", "namespace")):
        return (
            "this machine refuses user name spaces to unprivileged processes (usual inside containers). On the host: sysctl "
            "kernel.unprivileged_userns_clone=1, user.max_user_namespaces=10000, or "
            "kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu; in Docker: run it with "
            "--security-opt seccomp=unconfined; else name a command that isolates, e.g. sandbox: 'ssh box'"
        )
    return INSTALL
