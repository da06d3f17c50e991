"""Following a live run: reads its log again and again, rings once for each new symptom, keeps status.md up to date."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable
from pathlib import Path

from grpo_rlvr.cli import say, write_text
from grpo_rlvr.diagnosis.findings import Diagnosis
from grpo_rlvr.diagnosis.rules import diagnose
from grpo_rlvr.diagnosis.run import Run, in_use, read_run
from grpo_rlvr.diagnosis.texts import finding_lines, safe, status
from grpo_rlvr.errors import UserError


def look(path: Path, config: Path | None, began: float, now: float) -> tuple[Run, Diagnosis]:
    """One look at a run that may not have written a line yet."""
    run = read_run(path, config, now)
    run.watched = True
    if not run.log.steps:
        run.age_s = now - began
    return run, diagnose(run)


def watch(
    path: Path, config: Path | None, every_s: float, rounds: int | None = None, *,
    sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.time, bell: Callable[[], None] | None = None,
) -> tuple[Run, Diagnosis]:  # fmt: skip
    """Look every `every_s` seconds until the run is over, finished or not (or `rounds` looks were made); the last look's answer.

    status.md lies beside the log: in the run folder, or beside the file that was named.
    """
    began, rung, size = clock(), set(), (-1, -1)
    lived = False  # whether a process was seen to train there
    place = (path if path.is_dir() else path.parent) / "status.md"
    answer: tuple[Run, Diagnosis] | None = None
    said_waiting = False
    done = 0
    while True:
        done += 1
        now = clock()
        # Asked before the log is read: a process that ends in between has written its last line by then.
        alive = path.is_dir() and in_use(path)
        try:
            answer = look(path, config, began, now)
        except UserError:
            if done == 1 and not path.exists():
                raise
            if not said_waiting:
                say(f"waiting for the first line in {safe(path)}")
                said_waiting = True
        if answer is not None:
            run, diagnosis = answer
            mark = (run.log.last_step, len(diagnosis.findings))
            stamp = datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat(timespec="seconds")
            for finding in diagnosis.findings:
                if finding.name not in rung:
                    rung.add(finding.name)
                    (bell or _ring)()
                    say(f"step {run.log.last_step}:")
                    say("\n".join(finding_lines(finding, len(rung))) + "\n")
            if mark != size or rung:
                write_text(place, status(run, diagnosis, stamp))
                size = mark
            # With the last step logged, the process still evaluates and writes its result.
            if run.result or (not alive and (run.finished or lived)):
                return run, diagnosis
            lived = lived or alive
        if rounds is not None and done >= rounds:
            if answer is None:
                raise UserError("run", [_nothing(path)])
            return answer
        sleep(every_s)


def _nothing(path: Path):
    from grpo_rlvr.errors import Problem

    return Problem(str(path), "no line was written while watching", "is the training running, and is this its folder?")


def _ring() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\a")
        sys.stderr.flush()
