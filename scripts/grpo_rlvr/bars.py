"""Progress for people on stderr: a moving bar on a terminal, a line now and then elsewhere. Every script's bars come from here."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from grpo_rlvr.cli import say

EVERY_S = 15.0
SILENCE_S = 60.0
SPARKS = "▁▂▃▄▅▆▇█"


@contextlib.contextmanager
def progress(what: str, total: int, *, done: int = 0, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many more items are done. Where there is no bar, a line tells at times that work goes on."""
    count, said, started = done, time.monotonic(), time.monotonic()
    moving = not quiet and sys.stderr.isatty()
    over = threading.Event()

    def tell() -> None:
        nonlocal said
        while not over.wait(SILENCE_S / 4):
            if time.monotonic() - said >= SILENCE_S:
                said = time.monotonic()
                say(f"{what}: {count} of {total} so far ({said - started:.0f} s)")

    if not moving and not quiet:
        threading.Thread(target=tell, daemon=True).start()
    with contextlib.ExitStack() as ends:
        bar = ends.enter_context(Bar(what, total, done)) if moving else None
        ends.callback(over.set)

        def advance(more: int) -> None:
            nonlocal count, said
            count += more
            now = time.monotonic()
            if bar is not None:
                bar.show(count)
            elif not quiet and (now - said >= EVERY_S or count == total):
                said = now
                say(f"{what}: {count} of {total} ({now - started:.0f} s)")

        yield advance


@contextlib.contextmanager
def stages(every_s: float = EVERY_S) -> Iterator[Callable[[int, int | None, str], None]]:
    """Yield `report(done, total, what)` for work in stages, each with its own total (None: not known)."""
    with Bar("", None) if sys.stderr.isatty() else contextlib.nullcontext() as bar:
        said = time.monotonic()

        def report(done: int, total: int | None, what: str) -> None:
            nonlocal said
            if bar is not None:
                bar.show(done, total=total, what=what)
            elif time.monotonic() - said > every_s:
                said = time.monotonic()
                say(f"  {what}: step {done}")

        yield report


class Bar:
    """A bar on the terminal's stderr, with lines of figures below it; use it only where stderr is a terminal."""

    def __init__(self, what: str, total: int | None, done: int = 0):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.text import Text

        class WithLines(Progress):
            def get_renderables(self):
                yield self.make_tasks_table(self.tasks)
                yield from (Text(line, no_wrap=True, overflow="ellipsis") for line in lines)

        self.lines = lines = []
        end = (TimeElapsedColumn(),) if total is None else (MofNCompleteColumn(), TimeRemainingColumn())
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), *end)
        self.rich = WithLines(*columns, console=Console(stderr=True), redirect_stdout=False)
        self.task = self.rich.add_task(what, total=total, completed=done)

    def __enter__(self) -> Bar:
        self.rich.start()
        return self

    def __exit__(self, *error) -> None:
        self.rich.stop()

    def show(self, done: int, *, total: int | None = None, what: str | None = None, lines: Sequence[str] = ()) -> None:
        """Move the bar to `done`."""
        self.lines[:] = lines
        changed = {k: v for k, v in (("total", total), ("description", what)) if v is not None}
        self.rich.update(self.task, completed=done, **changed)

    def print(self, text: str) -> None:
        """A line above the bar, as it stands."""
        self.rich.console.print(text, markup=False, highlight=False, soft_wrap=True)


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """The last `width` values as characters of eight heights, a blank for None; lowest and highest value fill the height."""
    shown = list(values)[-width:]
    known = [v for v in shown if v is not None]
    if not known:
        return ""
    low, span = min(known), max(known) - min(known)
    height = len(SPARKS) - 1
    return "".join(" " if v is None else SPARKS[round((v - low) / span * height) if span else 0] for v in shown)
