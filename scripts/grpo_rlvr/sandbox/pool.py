"""Several sandboxes at work: tasks in, answers out in their order."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.sandbox.backends import Backend
from grpo_rlvr.sandbox.limits import Limits
from grpo_rlvr.sandbox.process import Sandbox, SandboxFault
from grpo_rlvr.sandbox.tasks import Answer, Calls, Program, Tests

Task = Calls | Program | Tests
TRIES = 2
IDLE_S = 30.0
RENEW_AFTER = 1000  # jobs of one server


@dataclass
class _Order:
    task: Task
    batch: _Batch
    place: int


@dataclass
class _Batch:
    answers: list
    left: int
    judge: Callable[[int, Answer], Any] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: threading.Event = field(default_factory=threading.Event)

    def put(self, place: int, answer: Answer | SandboxFault) -> None:
        if self.judge is not None and not isinstance(answer, SandboxFault):
            try:
                answer = self.judge(place, answer)
            except Exception as exc:  # as little as a fault of ours may a value nobody foresaw end the thread
                answer = SandboxFault(f"an answer could not be judged: {type(exc).__name__}: {exc}"[:300])
        with self.lock:
            self.answers[place] = answer
            self.left -= 1
            if self.left == 0:
                self.done.set()


class Pool:
    """`workers` threads with a sandbox each, started when the first task comes and ended after a pause.

    Threads of its own, since the kernel ends a sandbox with the thread that started it. May be used by several threads at once. After a
    fork, the child has none of it and must make its own.
    """

    def __init__(self, backend: Backend, limits: Limits, workers: int):
        self.backend, self.limits, self.workers, self.pid = backend, limits, workers, os.getpid()
        self._orders: queue.SimpleQueue = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._sandboxes: set[Sandbox] = set()
        self._lock = threading.Lock()
        self.closed = False
        atexit.register(self.close)

    def run(self, tasks: Sequence[Task], judge: Callable[[int, Answer], Any] | None = None) -> list[Any]:
        """Answers aligned with `tasks`; a SandboxFault (returned, not raised) where the sandbox failed twice on a task.

        Args:
            judge: judge(place, answer) is returned in place of each answer; called by the worker, so that no answer outlives its judgement.
        """
        if not tasks:
            return []
        batch = _Batch([None] * len(tasks), len(tasks), judge)
        with self._lock:
            if self.closed:
                raise RuntimeError("this pool of sandboxes is closed")
            while len(self._threads) < min(self.workers, len(tasks)):
                thread = threading.Thread(target=self._work, name=f"sandbox {len(self._threads)}", daemon=True)
                thread.start()
                self._threads.append(thread)
        for place, task in enumerate(tasks):
            self._orders.put(_Order(task, batch, place))
        batch.done.wait()
        return batch.answers

    def close(self) -> None:
        """End all sandboxes; what is still running becomes a fault."""
        atexit.unregister(self.close)
        with self._lock:
            if self.closed or os.getpid() != self.pid:
                return
            self.closed = True
            running = list(self._sandboxes)
        for _ in self._threads:
            self._orders.put(None)
        for sandbox in running:
            sandbox.kill()
        for thread in self._threads:
            thread.join(10)

    # ---- one thread
    def _work(self) -> None:
        mine: list[Sandbox | None] = [None, None]  # for the candidate, and for test code
        try:
            while True:
                try:
                    order = self._orders.get(timeout=IDLE_S if any(mine) else None)
                except queue.Empty:
                    self._put_away(mine)
                    continue
                if order is None:
                    return
                order.batch.put(order.place, self._answer(order.task, mine))
        finally:
            self._put_away(mine)

    def _answer(self, task: Task, mine: list[Sandbox | None]) -> Answer | SandboxFault:
        fault = SandboxFault("not tried")
        for _ in range(TRIES):
            if self.closed:
                return SandboxFault("the pool of sandboxes was closed")
            try:
                return task.run(self._ready(mine, 0), lambda: self._ready(mine, 1))
            except SandboxFault as exc:
                fault = exc
            except Exception as exc:  # a fault of ours must not end the thread, nor pass for a candidate's
                fault = SandboxFault(f"{type(exc).__name__}: {exc}"[:300])
            self._put_away(mine)
        return fault

    def _ready(self, mine: list[Sandbox | None], place: int) -> Sandbox:
        """The thread's sandbox in that place, started anew where it has served its time."""
        sandbox = mine[place]
        if sandbox is None or sandbox.closed or sandbox.jobs >= RENEW_AFTER:
            if sandbox is not None:
                self._end(sandbox)
            mine[place] = None
            sandbox = mine[place] = Sandbox(self.backend, self.limits)
            with self._lock:
                self._sandboxes.add(sandbox)
        return sandbox

    def _put_away(self, mine: list[Sandbox | None]) -> None:
        for place, sandbox in enumerate(mine):
            if sandbox is not None:
                self._end(sandbox)
            mine[place] = None

    def _end(self, sandbox: Sandbox) -> None:
        with contextlib.suppress(Exception):
            sandbox.close()
        with self._lock:
            self._sandboxes.discard(sandbox)
