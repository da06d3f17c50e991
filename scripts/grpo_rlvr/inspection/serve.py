"""The review page's edge: says where it is, waits for the reader, says what was read."""

from __future__ import annotations

import contextlib
import getpass
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.labels import NAME_CHARS, repair_labels
from grpo_rlvr.inspection.page import write_static_page
from grpo_rlvr.inspection.reading import Reading
from grpo_rlvr.visible import visible

# What follows the reading: of the first inspection, and of a step.
AFTER = ("gate CONFIG", "run CONFIG --from-run RUN")


def serve(config: Config, reviewer: str, port: int = 0, step: str | None = None) -> dict:
    """Serve the review page until the reader finishes, or until Ctrl-C or SIGTERM; returns `Reading.summary`.

    Raises:
        UserError: samples, scores or selection are missing or out of date, or the port cannot be used.
    """
    from grpo_rlvr.inspection.web import ReviewServer

    if not 0 <= port < 65536:
        raise UserError("review", Problem("--port", f"got {port}", "a number from 1 to 65535, or leave it out for a free one"))
    _check_name(reviewer)
    reading = Reading.open(config, reviewer, step)
    beside = repair_labels(reading.folder)
    if beside:
        say(f"labels.jsonl had lines that are no labels (a torn write?); they are kept as {beside.name}")
    server = ReviewServer(reading, port)
    say(f"{reading.done()} of {len(reading.selection)} samples are judged by {visible(reviewer)}. Read here:\n\n    {server.url}\n")
    say(f"From another machine, first: ssh -N -L {server.port}:127.0.0.1:{server.port} {visible(_this_machine())}")
    say("The token in the address is the secret of this review: it is for the person who reads, and for nobody else.")
    say("Every label is saved at once. Ctrl-C, or Finish on the page, ends the review.")
    with contextlib.suppress(KeyboardInterrupt), _stopped_like_ctrl_c():
        server.serve_until_finished()
    summary = reading.summary()
    then = f"; next: inspect_rewards.py {AFTER[step is not None]}" if summary["labelled"] == summary["selected"] else ""
    say(
        f"\n{summary['labelled']} of {summary['selected']} samples are judged by {visible(reviewer)}; "
        f"{summary['disagreements']} disagreements with the reward{then}"
    )
    return summary


def write_static(config: Config, file: str | Path, reviewer: str, step: str | None = None) -> dict:
    """Write the page with the samples inside; returns `file`, `samples`, `bytes` and `next`."""
    if reviewer:
        _check_name(reviewer)
    written = write_static_page(Reading.open(config, reviewer, step), Path(file), reviewer)
    step = "open the file in a browser, judge, download the labels, then: inspect_rewards.py gate CONFIG --labels labels.jsonl"
    say(f"{visible(written['file'])}: {written['samples']} samples, {written['bytes'] / 1e6:.1f} MB, readable by whoever has the file\nnext: {step}")
    return {**written, "next": step}


def _check_name(reviewer: str) -> None:
    if not reviewer.strip() or len(reviewer) > NAME_CHARS:
        raise UserError("review", Problem("--reviewer", f"got a name of {len(reviewer)} characters", f"a name of 1 to {NAME_CHARS}"))


def _this_machine() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):
        return f"USER@{socket.gethostname()}"


@contextlib.contextmanager
def _stopped_like_ctrl_c() -> Iterator[None]:
    """SIGTERM ends the review as Ctrl-C does: with its summary."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
