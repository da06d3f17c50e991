"""Files with one JSON object a line that survive a kill in the middle of a line."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import Problem, UserError


@dataclass(frozen=True)
class Line:
    """One line: its number (from 1), its bytes without the line end, and its object, or why it is none.

    A row of a file that has no lines has the number that it has there (from 0) and no bytes.
    """

    number: int
    raw: bytes | None
    value: dict | None
    problem: str = ""


def read_lines(path: Path) -> list[Line]:
    """All lines that are not blank; an unreadable one has `value` None. A missing file has no lines."""
    return parse_lines(path.read_bytes()) if path.exists() else []


def parse_lines(data: bytes) -> list[Line]:
    lines = []
    # Some editors write a byte order mark before the first line.
    for number, raw in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            value = json.loads(raw.decode("utf-8"))
        except (ValueError, RecursionError) as exc:
            lines.append(Line(number, raw, None, f"not JSON ({str(exc)[:80]})"))
            continue
        problem = "" if isinstance(value, dict) else f"a {type(value).__name__}, not an object"
        lines.append(Line(number, raw, None if problem else value, problem))
    return lines


class Tail:
    """A file that others add lines to: reads what is new, and all of it again when another file has taken its place."""

    def __init__(self, path: Path):
        self.path, self._inode, self._offset = path, None, 0

    def read(self) -> tuple[list[Line], bool]:
        """The whole lines since the last call (numbered from 1), and whether they are the file from its beginning."""
        try:
            with open(self.path, "rb") as source:
                found = os.fstat(source.fileno())
                anew = found.st_ino != self._inode or found.st_size < self._offset
                self._inode, self._offset = found.st_ino, 0 if anew else self._offset
                source.seek(self._offset)
                data = source.read()
        except FileNotFoundError:
            gone, self._inode, self._offset = self._inode is not None, None, 0
            return [], gone
        whole = data[: data.rfind(b"\n") + 1]  # a line that is being written is read next time
        self._offset += len(whole)
        return parse_lines(whole), anew


def append_lines(path: Path, objects: Iterable[dict]) -> None:
    """Add lines and wait until they are on the disk; a torn last line is closed first, so that it stays a line of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(json.dumps(o, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n" for o in objects)
    with open(path, "ab") as out:
        if out.tell() and _last_byte(path) != b"\n":
            data = b"\n" + data
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def set_aside(path: Path, lines: list[Line], word: str) -> Path:
    """Keep `lines` in a file beside `path` (`labels.torn-1a2b3c4d.jsonl`), so that nothing is ever lost."""
    data = b"".join(line.raw + b"\n" for line in lines)
    beside = path.with_name(f"{path.stem}.{word}-{hashlib.sha256(data).hexdigest()[:8]}{path.suffix}")
    beside.write_bytes(data)
    return beside


def canonical(value: Any) -> str:
    """One text per JSON value: sorted keys, no spaces. What is hashed and compared."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)


def sha256(value: Any) -> str:
    """Hex digest of the canonical JSON of `value`."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


@contextlib.contextmanager
def locked(folder: Path, name: str = ".lock", wait: bool = False) -> Iterator[None]:
    """Hold the folder (or what `name` stands for in it) for one writer; a second one is told so, or waits, instead of mixing its lines in."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # no such lock on this system
        yield
        return
    with open(folder / name, "w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise UserError(
                "run", Problem(str(folder), "another inspection writes here at this moment", "wait for it, or set run.folder to another folder")
            ) from exc
        yield


def _last_byte(path: Path) -> bytes:
    with open(path, "rb") as source:
        source.seek(-1, os.SEEK_END)
        return source.read(1)
