"""A progress bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from grpo_rlvr.cli import say

EVERY_S = 15.0


@contextlib.contextmanager
def progress(what: str, total: int, *, done: int = 0, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many more items are done."""
    if quiet:
        yield lambda count: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total, completed=done)
            yield lambda count: bar.advance(task, count)
    else:
        count, said, started = done, time.monotonic(), time.monotonic()

        def advance(more: int) -> None:
            nonlocal count, said
            count += more
            now = time.monotonic()
            if now - said >= EVERY_S or count == total:
                said = now
                say(f"{what}: {count} of {total} ({now - started:.0f} s)")

        yield advance
