"""The run folder: what it already holds, where things go, and that only one process trains in it."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from grpo_rlvr.cli import say
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.training.checkpoints import newest_complete, set_aside_incomplete, step_of
from grpo_rlvr.training.progress import ProgressLog


def read_record(path: Path) -> dict:
    """A JSON file of the run; {} where there is none.

    Raises:
        UserError: it holds something else. It is written whole or not at all, so somebody or something changed it.
    """
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"it holds a {type(found).__name__}")
    except (ValueError, RecursionError) as exc:
        fix = "put the file back, or take it away if nothing in it is needed"
        raise UserError("run", Problem("run.folder", f"{path} is damaged: {exc}", fix)) from exc
    return found


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

    def refuse(self, resume: bool) -> None:
        """Changes nothing.

        Raises:
            UserError: the folder holds a finished run, or an unfinished one and `resume` is not asked for.
        """
        if self.root.exists() and not self.root.is_dir():
            raise UserError("run", Problem("run.folder", f"{self.root} is a file", "choose another run.folder"))
        if self.result.exists():
            steps = read_record(self.result).get("steps", "?")
            raise UserError(
                "run",
                Problem(
                    "run.folder",
                    f"{self.root} already holds a finished run ({steps} steps)",
                    "choose another run.folder (and set run.gate to this one's inspection/gate.json: nobody reads again); nothing was changed",
                ),
            )
        done = self.progress.last_step()
        if not resume and (done or list(self.checkpoints.glob("checkpoint-*"))):
            raise UserError(
                "run",
                Problem("run.folder", f"{self.root} holds an unfinished run (step {done})", "add --resume to go on, or choose another run.folder"),
            )

    def start(self, resume: bool, main_process: bool = True) -> Path | None:
        """Make the folder ready and return the checkpoint to resume from, None for a start from step 0.

        Args:
            main_process: the other processes only look, since two that rename the same folder would trip over one another.
        """
        self.refuse(resume)
        if main_process:
            self.logs.mkdir(parents=True, exist_ok=True)
            if resume:
                for name in set_aside_incomplete(self.checkpoints):
                    say(f"warning: {name} is not whole; it is set aside as {name.replace('checkpoint-', 'incomplete-')}")
        checkpoint = newest_complete(self.checkpoints) if resume else None
        if main_process:
            # From step 0 the first evaluation is made anew: rewards and rows may have been mended since.
            at = step_of(checkpoint) if checkpoint else -1
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
