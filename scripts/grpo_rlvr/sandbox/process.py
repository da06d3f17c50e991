"""One running sandbox: started, spoken to, ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from grpo_rlvr.sandbox.backends import Backend
from grpo_rlvr.sandbox.inside import frames
from grpo_rlvr.sandbox.limits import Limits

INSIDE = Path(__file__).with_name("inside")
# In the order of their imports.
MODULES = ("frames", "jail", "values", "candidate", "session", "stand_ins", "pytest_stand_in", "testing", "child", "supervisor")
READY_S, SPARE_S = 60.0, 15.0
CHILD = b"c"


class SandboxFault(Exception):
    """The sandbox itself failed; says nothing about the candidate."""


class Sandbox:
    """A started sandbox. One job at a time; not for several threads.

    Must be started by a thread that lives as long as it does: the kernel ends it with the thread that started it.
    """

    def __init__(self, backend: Backend, limits: Limits):
        self.backend, self.limits = backend, limits
        self.python, self.first, self.jobs, self.reason, self.closed = "", False, 0, "", False
        self._running = False
        # A candidate's output as JSON text is up to six times as long.
        most = max(2 * frames.MOST_BYTES, 7 * (limits.output_mib << 20))
        with backend.launch(limits) as launch:
            self.end_command, self.end_environment = launch.end, launch.environment
            as_user = {} if launch.user is None else {"user": launch.user, "group": launch.user, "extra_groups": []}
            try:
                self.process = subprocess.Popen(  # noqa: S603  (a list, no shell)
                    launch.command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=launch.environment,
                    pass_fds=launch.descriptors,
                    cwd="/",
                    start_new_session=True,
                    bufsize=0,
                    **as_user,
                )
            except (OSError, subprocess.SubprocessError) as exc:
                raise SandboxFault(f"{backend.name} cannot be started: {exc}") from exc
            try:
                self._splitter = frames.Splitter(most)
                self._waiting: list[bytes] = []
                os.set_blocking(self.process.stdin.fileno(), False)
                self.tell({"modules": sources(), "settings": limits.settings(backend.server)})
                ready = self._next(time.monotonic() + READY_S)
                if type(ready) is not dict or "ready" not in ready:
                    raise SandboxFault(f"{backend.name} did not start")
                self.python, self.first = str(ready["python"])[:40], bool(ready["first"])
            except BaseException:
                self.close()
                raise

    def run(self, job: dict) -> tuple[list[Any], str]:
        """Run one job: what `events` yields, and why it ended."""
        said = list(self.events(job))
        return said, self.reason

    def events(self, job: dict) -> Iterator[Any]:
        """Run one job and yield what the candidate's side says: untrusted JSON values (None for what is no JSON).

        Of a program each run is a dict of the supervisor's: `program` (why it ended), `code` (exit status), `out`. When all is said, `reason`
        tells why the job ended: "done", "exit" (it left by itself), "time", "memory" or "output" (more than may be read).

        Raises:
            SandboxFault: the sandbox failed; it is closed.
        """
        self.jobs += 1
        self.reason, told = "", False
        end = time.monotonic() + self.limits.total_s + SPARE_S
        try:
            told_s = {"timeout_s": self.limits.timeout_s, "deadline_s": self.limits.total_s}
            if "code" in job:
                self.tell(frames.pack({**job, **told_s, "code": None}) + frames.pack_bytes(job["code"].encode("utf-8", "surrogatepass")))
            else:
                self.tell({**job, **told_s})
            self._running = True
            while True:
                message = self._next(end)
                if message is None:
                    # Without a process space of its own, a candidate can end its supervisor.
                    if self.first or not told:
                        raise SandboxFault(f"{self.backend.name} ended in the middle of a job")
                    self.reason = self.reason or "exit"
                    return
                if type(message) is tuple:
                    told = True
                    yield message[0]
                elif "fault" in message:
                    raise SandboxFault(f"{self.backend.name}: {str(message['fault'])[:200]}")
                elif "program" in message:
                    told = True
                    yield message
                    if message["program"] != "done":
                        self.reason = message["program"]
                elif "end" in message:
                    self.reason = self.reason or message["end"]
                    return
        except BaseException:
            self.close()
            raise
        finally:
            self._running = False
            if not self.backend.server:
                self.close()

    def tell(self, message: dict | bytes) -> None:
        """Send a message (or one that is packed) into the sandbox; of a job that is running, to the candidate's side."""
        fd, end = self.process.stdin.fileno(), time.monotonic() + READY_S
        poller = select.poll()
        poller.register(fd, select.POLLOUT)
        try:
            view = memoryview(message if isinstance(message, bytes) else frames.pack(message))
            while view:
                if not poller.poll(max(0.0, end - time.monotonic()) * 1000):
                    raise OSError(f"nothing was taken for {READY_S:g} s")
                with contextlib.suppress(BlockingIOError):
                    view = view[os.write(fd, view[:65_536]) :]
        except BrokenPipeError:
            if self._running:
                return  # ended by itself, perhaps since its candidate has: its last words, or their lack, come next
            raise SandboxFault(f"{self.backend.name} does not listen: {self._complaint() or 'it has ended'}") from None
        except (OSError, ValueError) as exc:
            raise SandboxFault(f"{self.backend.name}: {self._complaint() or f'it does not listen ({exc})'}") from exc

    def kill(self) -> None:
        """End all its processes; from any thread."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it and everything in it; may be called twice."""
        if self.closed:
            return
        self.closed = True
        self.kill()
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()
        self.process.wait()
        if self.end_command:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(self.end_command, capture_output=True, timeout=30, env=self.end_environment)  # noqa: S603  (a list, no shell)

    # ---- messages
    def _next(self, end: float) -> Any:
        """The next message: a dict of the trusted side's, a 1-tuple with what the candidate's side said, None at the end."""
        fd = self.process.stdout.fileno()
        poller = select.poll()
        poller.register(fd, select.POLLIN | select.POLLHUP)
        while not self._waiting:
            if not poller.poll(max(0.0, end - time.monotonic()) * 1000):
                raise SandboxFault(f"{self.backend.name} does not answer")
            data = os.read(fd, 1 << 20)
            if not data:
                complaint = self._complaint()
                if complaint:
                    raise SandboxFault(f"{self.backend.name}: {complaint}")
                return None
            try:
                self._waiting += self._splitter.feed(data)
            except ValueError as exc:
                raise SandboxFault(f"{self.backend.name} sent {exc}") from exc
        body = self._waiting.pop(0)[4:]
        if body[:1] == CHILD:
            return (_untrusted(body[1:]),)
        return json.loads(body)

    def _complaint(self) -> str:
        """The last line of what the command wrote to standard error before it ended."""
        with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
            self.process.wait(2)
            os.set_blocking(self.process.stderr.fileno(), False)
            text = (self.process.stderr.read(8192) or b"").decode("utf-8", "replace").strip()
            return text.splitlines()[-1][:300] if text else ""
        return ""


def _untrusted(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError, MemoryError):
        return None


@cache
def sources() -> list[list[str]]:
    """[name, source] of the modules that run inside, in the order of their imports."""
    blocks = INSIDE.parents[1] / "code_blocks.py"
    inside = [[f"sandbox_inside.{name}", (INSIDE / f"{name}.py").read_text(encoding="utf-8")] for name in MODULES]
    return [["code_blocks", blocks.read_text(encoding="utf-8")], *inside]
