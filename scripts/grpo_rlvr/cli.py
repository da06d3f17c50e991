"""What every script shares: exit codes, `--json`, one error format, files written whole or not at all."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from grpo_rlvr.bytecode import leave_none_here
from grpo_rlvr.errors import EXIT_INTERNAL, EXIT_MISSING, GrpoRlvrError
from grpo_rlvr.visible import visible

_COLOUR = re.compile(r"(\x1b\[(?:0|1|2|31|32|33)m)")
EXIT_CODES = "exit codes: 0 yes; 1 the check says no; 2 a mistake in what was asked; 3 something is missing on this machine"


class _Parser(argparse.ArgumentParser):
    """Answers in JSON also when the command line itself is wrong."""

    def error(self, message: str):
        if "--json" in sys.argv[1:]:
            print(json.dumps({"error": {"kind": "usage", "message": message, "fix": f"{self.prog} --help"}}))
        super().error(visible(message))


def parser(prog: str, description: str, examples: list[str]) -> argparse.ArgumentParser:
    """An argument parser whose help ends with the exit codes and two or more examples."""
    leave_none_here()
    epilog = EXIT_CODES + "\n\nexamples:\n" + "\n".join("  " + e for e in examples)
    return _Parser(prog=prog, description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter)


class _Visible:
    """What libraries and rewards print, on its way to another stream: a reward may print what a model wrote, and nothing of it acts there."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        return False  # so that no library colours what it prints

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def run(body: Callable[[argparse.Namespace], tuple[int, dict]], args: argparse.Namespace) -> int:
    """Run `body`, print its result as the script's answer and return the exit code.

    `body` returns `(exit_code, result)`; what it prints goes to stderr. With `args.json`, stdout carries exactly one JSON object: the result, or
    `{"error": ...}`. Without it, errors go to stderr as text and the body has printed what people read.
    """
    as_json = getattr(args, "json", False)
    stdout = sys.stdout
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal of an old code page gets an escape in the place of a character that it lacks; Python would end the program.
            stream.reconfigure(errors="backslashreplace")
    try:
        # Libraries and rewards print; stdout is for data. A body that writes data there has it in `args.out`.
        with contextlib.redirect_stdout(_Visible(sys.stderr)):
            code, result = body(args)
    except GrpoRlvrError as exc:
        if as_json:
            print(json.dumps({"error": exc.to_json()}), file=stdout)
        else:
            heading = f"error ({exc.kind})" if len(exc.problems) == 1 else f"error ({exc.kind}): {len(exc.problems)} problems"
            print(heading + "\n" + "\n".join(f"  {p}" for p in exc.problems), file=sys.stderr)
        return exc.exit_code
    except KeyboardInterrupt:
        if as_json:
            print(json.dumps({"error": {"kind": "interrupted", "message": "interrupted by Ctrl-C", "fix": "the same command goes on"}}), file=stdout)
        print("interrupted; what was finished is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return _nobody_reads()
    except OSError as exc:
        # A full disk or a folder without write permission is the machine's or the user's affair, not a traceback's.
        problem = {"kind": "io", "message": visible(f"{exc.strerror or exc} ({exc.filename or 'no file named'})")}
        problem["fix"] = "free space, or choose a folder that can be written"
        if as_json:
            print(json.dumps({"error": problem}), file=stdout)
        else:
            print(f"error (io)\n  {problem['message']}\n    -> {problem['fix']}", file=sys.stderr)
        return EXIT_MISSING
    except (Exception, SystemExit) as exc:
        # A fault of ours (or code that was called tried to end the program): people get the traceback, programs still get their one object.
        print(visible(traceback.format_exc()), end="", file=sys.stderr)
        if as_json:
            fix = "report it with the traceback on stderr"
            print(json.dumps({"error": {"kind": "internal", "message": f"{type(exc).__name__}: {exc}", "fix": fix}}), file=stdout)
        return EXIT_INTERNAL
    try:
        if as_json:
            print(json.dumps(result), file=stdout, flush=True)
    except BrokenPipeError:
        return _nobody_reads()
    return code


def _nobody_reads() -> int:
    """The reader went away, so the answer reached nobody; it must not look like a yes, and Python must not fail on the way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_MISSING


def say(text: str = "", coloured: bool = False) -> None:
    """A line for people: always on stderr, so that stdout stays for data, and nothing in it acts on a terminal.

    Args:
        coloured: the text holds colours of our own, which stay.
    """
    shown = "".join(part if _COLOUR.fullmatch(part) else visible(part) for part in _COLOUR.split(text)) if coloured else visible(text)
    with contextlib.suppress(BrokenPipeError):  # nobody reads along any more; the answer is the exit code
        print(shown, file=sys.stderr, flush=True)


def write_json(path: Path, what: str, version: int, data: dict) -> None:
    """Write `data` with its schema name, whole or not at all (temporary file, fsync, rename)."""
    write_text(path, json.dumps({"schema": f"grpo-rlvr/{what}/{version}", **data}, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace `path` in one step; a reader sees the old file or the new one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        # Half a surrogate pair, which JSON data can hold, becomes the escape that JSON reads back.
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
