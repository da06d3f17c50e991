"""`labels.jsonl`: what readers said about samples, one line a judgement, on the disk before the next sample is shown.

A label belongs to a prompt and completion, not to a score; it stays good when the reward is mended. Lines are only ever added: who
changes, takes back or withdraws a label adds a line, and what was said before can still be read.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from grpo_rlvr.cli import write_text
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.jsonl import Line, append_lines, locked, read_lines, set_aside

SCHEMA = "grpo-rlvr/label/1"
LABELS = ("pass", "fail", "unsure")
# withdrawn: the reader no longer stands by the label, and the note says why. undone: a slip; the sample waits to be judged again.
TAKEN_BACK = ("withdrawn", "undone")
LOCK = ".labels.lock"  # not the inspection's: a reader must be able to go on while `run` works
KINDS = ("human", "agent", "oracle")
NOTE_CHARS = 4000
NAME_CHARS = 200


def labels_path(folder: Path) -> Path:
    return folder / "labels.jsonl"


def append_label(folder: Path, sample_id: str, label: str, reviewer: str, kind: str, note: str = "", check: Callable[[], None] | None = None) -> dict:
    """Record one judgement, safely on the disk on return; a later one of the same reviewer on the same sample replaces it.

    Args:
        label: pass, fail or unsure; or withdrawn (with a note) or undone, which take back what the reviewer said of this sample.
        kind: human (a person read it), agent (a model read it) or oracle (a program that knows the truth, in demos).
        check: called when nobody else writes here, before the line is added; raises if it shall not be.
    """
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    row = {"schema": SCHEMA, "sample_id": sample_id, "label": label, "reviewer": reviewer, "reviewer_kind": kind, "at": now, "note": note}
    problem = row_problem(row)
    if problem:
        raise UserError("labels", Problem("label", problem))
    with locked(folder, LOCK, wait=True):
        if check:
            check()
        append_lines(labels_path(folder), [row])
    return row


def load_labels(folder: Path) -> list[dict]:
    """The labels that hold: the last line of each (sample, reviewer) unless it takes back, in the order of their first lines.

    Each has a key `revised`: whether the reviewer said something else before; and `first`: what that was, before any score was shown.

    Raises:
        UserError: a torn or invalid line, by number.
    """
    return [row for row in load_judgements(folder) if row["label"] in LABELS]


def load_judgements(folder: Path) -> list[dict]:
    """As `load_labels`, and the samples whose label is withdrawn or undone too."""
    path = labels_path(folder)
    lines = read_lines(path)
    bad = [(line, line_problem(line)) for line in lines if line_problem(line)]
    if bad:
        fix = "run inspect_rewards.py review CONFIG again: it moves such lines to a file of their own and goes on"
        raise UserError("labels", [Problem(f"{path} line {line.number}", said, fix) for line, said in bad[:10]])
    return last_words(line.value for line in lines)


def last_words(rows: Iterable[dict]) -> list[dict]:
    """The last row of each (sample, reviewer) with `revised`, `first` and `turn` (how many rows there were), in the order of their first rows."""
    latest: dict[tuple[str, str], dict] = {}
    for row in rows:
        key = (row["sample_id"], row["reviewer"])
        latest[key] = next_word(latest.get(key), row)
    return list(latest.values())


def next_word(before: dict | None, row: dict) -> dict:
    """A row as `last_words` returns it, after the one `before` of the same reviewer on the same sample."""
    first = before["first"] if before else None
    revised = before is not None and (before["revised"] or (row["label"] in LABELS and first not in (None, row["label"])))
    first = first or (row["label"] if row["label"] in LABELS else None)
    return {**row, "revised": revised, "first": first, "turn": before["turn"] + 1 if before else 1}


def repair_labels(folder: Path) -> Path | None:
    """Move lines that are no labels (torn by a kill) to a file beside; returns it, or None if there were none."""
    path = labels_path(folder)
    with locked(folder, LOCK, wait=True):  # a label appended between reading and writing would be lost
        lines = read_lines(path)
        bad = [line for line in lines if line_problem(line)]
        if not bad:
            return None
        beside = set_aside(path, bad, "torn")
        write_text(path, "".join(line.raw.decode() + "\n" for line in lines if not line_problem(line)))
    return beside


def line_problem(line: Line) -> str:
    """Why a line is no label, or an empty text."""
    return line.problem if line.value is None else row_problem(line.value)


def row_problem(row: dict) -> str:
    """Why an object is no label, or an empty text."""
    if row.get("schema") != SCHEMA:
        return f"schema is {row.get('schema')!r}, not {SCHEMA}"
    said = [
        f"{name} is {row.get(name)!r}, not some text"
        for name in ("sample_id", "reviewer")
        if not isinstance(row.get(name), str) or not row[name].strip()
    ]
    said += [_not_one_of(row, "label", LABELS + TAKEN_BACK), _not_one_of(row, "reviewer_kind", KINDS)]
    note = row.get("note", "")
    if not isinstance(note, str):
        said.append("note is not text")
    elif len(note) > NOTE_CHARS:
        said.append(f"the note has {len(note):,} characters, more than {NOTE_CHARS:,}")
    elif row.get("label") == "withdrawn" and not note.strip():
        said.append("a label is withdrawn with a note that says why; the note is empty")
    if isinstance(row.get("reviewer"), str) and len(row["reviewer"]) > NAME_CHARS:
        said.append(f"the reviewer's name is longer than {NAME_CHARS} characters")
    return "; ".join(s for s in said if s)


def _not_one_of(row: dict, name: str, allowed: Collection[str]) -> str:
    return "" if row.get(name) in allowed else f"{name} is {row.get(name)!r}, not {', '.join(allowed)}"
