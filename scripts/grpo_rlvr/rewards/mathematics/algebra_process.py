"""The algebra worker seen from the caller: started on first use, shared by all threads, killed when it is late, reaped."""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from grpo_rlvr.errors import missing_package
from grpo_rlvr.rewards.base import Memo

log = logging.getLogger("grpo_rlvr.rewards")

START_S = 120.0
# An item after one that was killed gets less and less, so that a batch of hostile answers costs little more than one.
LEAST_CPU_S = 0.25
# The worker counts its own CPU time; the wall clock is the backstop for one that hangs without computing.
WALL_FACTOR = 4.0
_ENDED = ("late", "died", "unknown")
SOURCE = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Question:
    """Is `answer` the same as `gold`? Normalised texts, read as `percent` and `decimal_comma` say."""

    gold: str
    answer: str
    percent: str
    decimal_comma: bool


class AlgebraProcess:
    """One worker for this process. `ask` may be called from any thread; a fork starts with a worker of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._reader: threading.Thread | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._known = Memo(20_000)
        if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
            os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self.stop)

    def ask(self, questions: list[Question], cpu_s: float) -> list[bool | None]:
        """The answers in the order of the questions, each computed once.

        False also for an answer whose computation ended the worker (out of time or memory, a crash): it is the answer's
        doing as long as the gold alone can be read. None where the gold cannot, or where no worker could be started.
        """
        with self._lock:
            killed = 0
            for question in dict.fromkeys(questions):
                if self._known.get(question) is None:
                    verdict, died = self._decide(question, max(LEAST_CPU_S, cpu_s / 2**killed))
                    killed += died
                    self._known.put(question, verdict)
            return [{"same": True, "different": False}.get(self._known.get(q)) for q in questions]

    def stop(self) -> None:
        """Ends the worker, if there is one, and waits for it."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
        if self._reader is not None:
            self._reader.join()  # before its pipe is closed, whose number another file may get
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()

    @property
    def pid(self) -> int | None:
        """The worker's process id, None where none runs."""
        return self._process.pid if self._process else None

    # ---- inside; the lock is held
    def _decide(self, question: Question, cpu_s: float) -> tuple[str, bool]:
        probe = Question(question.gold, "1", question.percent, question.decimal_comma)
        if self._known.get(probe) in _ENDED:
            return "unknown", False
        verdict = self._try(question, cpu_s)
        if verdict == "died":  # perhaps killed from outside: once more
            verdict = self._try(question, cpu_s)
        if verdict in ("same", "different", "unknown"):
            return verdict, False
        log.warning("math: the comparison of an answer with %.60r ended the worker (%s)", question.gold, verdict)
        # Whose doing was it? The gold beside a harmless number tells.
        if self._known.get(probe) is None:
            self._known.put(probe, self._try(probe, max(cpu_s, 1.0)))
        return ("different" if self._known.get(probe) in ("same", "different") else "unknown"), True

    def _try(self, question: Question, cpu_s: float) -> str:
        """same, different, late, died, or unknown (no worker)."""
        if self._process is None and not self._start():
            return "unknown"
        line = json.dumps({**asdict(question), "cpu_s": cpu_s}).encode() + b"\n"
        try:
            self._process.stdin.write(line)
            reply = self._reply(cpu_s * WALL_FACTOR + 2)
        except OSError:
            reply = None
        if reply is not None and "same" in reply:
            return "same" if reply["same"] else "different"
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.wait(timeout=0.2)
        code = self._process.returncode
        self.stop()
        return "late" if code is None or code == -getattr(signal, "SIGPROF", 0) else "died"

    def _start(self) -> bool:
        code = (
            f"import sys; sys.dont_write_bytecode = True; sys.path.insert(0, {str(SOURCE)!r}); "
            "from grpo_rlvr.bytecode import leave_none_here; leave_none_here(); "
            "from grpo_rlvr.rewards.mathematics.algebra_worker import main; main()"
        )
        # -P: the working folder stays off the path, a user's file there must not become a library.
        command = [sys.executable, "-P", "-c", code]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0, start_new_session=True)  # noqa: S603  (our own list, no shell)
        self._lines = queue.SimpleQueue()
        self._reader = threading.Thread(target=_pass_on, args=(self._process.stdout, self._lines), daemon=True)
        self._reader.start()
        reply = self._reply(START_S)
        if reply is not None and "ready" in reply:
            return True
        self.stop()
        if reply is not None and "missing" in reply:
            raise missing_package("math-verify", "the math reward", "pip install 'math-verify>=0.9,<0.10'")
        log.warning("math: the algebra worker did not start")
        return False

    def _reply(self, wait_s: float) -> dict | None:
        """The next line as an object; None at the end of the stream or of the time."""
        try:
            line = self._lines.get(timeout=wait_s)
        except queue.Empty:
            return None
        return json.loads(line) if line else None

    def _after_fork(self) -> None:
        """In a forked child: the parent's worker is the parent's; only our copies of its pipes are closed."""
        process, self._process = self._process, None
        self._lock = threading.Lock()
        self._known = Memo(20_000)
        self._reader = None
        if process is not None:
            process.returncode = 0  # never waited for here
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()


def _pass_on(stream: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Each line of the worker, then an empty one at the end: a thread can be waited for with a limit on every system, a pipe cannot."""
    rest = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(stream.fileno(), 65536):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                lines.put(line)
    lines.put(b"")


ALGEBRA = AlgebraProcess()
