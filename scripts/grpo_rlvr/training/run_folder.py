"""The run folder: what it already holds, where things go, and that only one process trains in it."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.training.checkpoints import newest_complete, set_aside_incomplete, step_of
from grpo_rlvr.training.progress import ProgressLog


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run."""

    root: Path

    @property
    def train(self) -> Path:
        return self.root / "train"

    @property
    def checkpoints(self) -> Path:
        return self.train / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.train / "logs"

    @property
    def progress(self) -> ProgressLog:
        return ProgressLog(self.logs / "progress.jsonl")

    @property
    def evaluations(self) -> ProgressLog:
        return ProgressLog(self.logs / "eval.jsonl")

    @property
    def result(self) -> Path:
        return self.train / "result.json"

    @property
    def model(self) -> Path:
        return self.train / "model"

    def start(self, resume: bool) -> Path | None:
        """Make the folder ready and return the checkpoint to resume from, None for a start from step 0.

        Raises:
            UserError: the folder holds a finished run, or an unfinished one and `resume` is not asked for.
        """
        if self.result.exists():
            steps = json.loads(self.result.read_text(encoding="utf-8")).get("steps", "?")
            raise UserError(
                "run",
                Problem("run.folder", f"{self.root} already holds a finished run ({steps} steps)", "choose another run.folder; nothing was changed"),
            )
        done = self.progress.last_step()
        if not resume and (done or list(self.checkpoints.glob("checkpoint-*"))):
            raise UserError(
                "run",
                Problem("run.folder", f"{self.root} holds an unfinished run (step {done})", "add --resume to go on, or choose another run.folder"),
            )
        self.logs.mkdir(parents=True, exist_ok=True)
        if not resume:
            return None
        set_aside_incomplete(self.checkpoints)
        checkpoint = newest_complete(self.checkpoints)
        at = step_of(checkpoint) if checkpoint else 0
        self.progress.rewind(at)
        self.evaluations.rewind(at)
        return checkpoint

    @contextlib.contextmanager
    def locked(self):
        """Hold the run folder for this process; released by the system if the process dies.

        Raises:
            UserError: another process trains in this folder.
        """
        try:
            import fcntl
        except ImportError:  # not on Windows
            yield
            return
        self.train.mkdir(parents=True, exist_ok=True)
        with open(self.train / ".lock", "a+", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                holder = lock.read().strip() or "unknown"
                raise UserError(
                    "run", Problem("run.folder", f"another process (id {holder}) trains in {self.root}", "wait for it, or choose another run.folder")
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield
