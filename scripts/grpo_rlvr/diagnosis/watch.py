"""Following a live run: reads its log again and again, rings once for each new symptom, keeps status.md up to date."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable
from pathlib import Path

from grpo_rlvr.cli import say, write_text
from grpo_rlvr.diagnosis.findings import Diagnosis
from grpo_rlvr.diagnosis.readers import NothingYet
from grpo_rlvr.diagnosis.rules import diagnose
from grpo_rlvr.diagnosis.run import Run, in_use, read_run
from grpo_rlvr.diagnosis.texts import finding_lines, safe, status
from grpo_rlvr.errors import UserError

GONE = 3  # looks in a row at which the log is not there, after which it is taken as deleted


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
    said: set[str] = set()
    done = gone = 0
    while True:
        done += 1
        now = clock()
        # Asked before the log is read: a process that ends in between has written its last line by then.
        alive = path.is_dir() and in_use(path)
        fresh = False
        try:
            answer = look(path, config, began, now)
            fresh, gone = True, 0
        except NothingYet:
            _once(f"waiting for the first line in {safe(path)}", said)
        except UserError as exc:
            if done == 1:
                raise
            _once("; ".join(safe(p) for p in exc.problems), said)
            # A log that is replaced is away for a moment.
            gone = 0 if path.exists() else gone + 1
            if gone >= GONE:
                if answer is None:
                    raise
                say(f"{safe(path)} is gone: this is what it said last")
                return answer
        if fresh and answer is not None:
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
                try:
                    write_text(place, status(run, diagnosis, stamp))
                    size = mark
                except OSError as exc:  # a full disk ends the note, not the watch
                    _once(f"{safe(place)} cannot be written: {exc.strerror or exc}; watching goes on", said)
            # With the last step logged, the process still evaluates and writes its result.
            if run.result or (not alive and (run.finished or lived)):
                return run, diagnosis
            lived = lived or alive
        if rounds is not None and done >= rounds:
            if answer is None:
                raise UserError("run", [_nothing(path)])
            return answer
        sleep(every_s)


def _once(text: str, said: set[str]) -> None:
    if text not in said:
        said.add(text)
        say(text)


def _nothing(path: Path):
    from grpo_rlvr.errors import Problem

    return Problem(str(path), "no line was written while watching", "is the training running, and is this its folder?")


def _ring() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\a")
        sys.stderr.flush()
