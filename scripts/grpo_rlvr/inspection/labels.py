"""`labels.jsonl`: what readers said about samples, one line a judgement, on the disk before the next sample is shown.

A label belongs to a prompt and completion, not to a score; it stays good when the reward is mended.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection
from pathlib import Path

from grpo_rlvr.cli import write_text
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.jsonl import Line, append_lines, locked, read_lines, set_aside

SCHEMA = "grpo-rlvr/label/1"
LABELS = ("pass", "fail", "unsure")
LOCK = ".labels.lock"  # not the inspection's: a reader must be able to go on while `run` works
KINDS = ("human", "agent", "oracle")


def labels_path(folder: Path) -> Path:
    return folder / "labels.jsonl"


def append_label(folder: Path, sample_id: str, label: str, reviewer: str, kind: str, note: str = "") -> dict:
    """Record one judgement, safely on the disk on return; a later one of the same reviewer on the same sample replaces it.

    Args:
        label: pass, fail or unsure.
        kind: human (a person read it), agent (a model read it) or oracle (a program that knows the truth, in demos).
    """
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    row = {"schema": SCHEMA, "sample_id": sample_id, "label": label, "reviewer": reviewer, "reviewer_kind": kind, "at": now, "note": note}
    problem = _problem(row)
    if problem:
        raise UserError("labels", Problem("label", problem))
    with locked(folder, LOCK, wait=True):
        append_lines(labels_path(folder), [row])
    return row


def load_labels(folder: Path) -> list[dict]:
    """The labels that hold: the last line of each (sample, reviewer), in the order of their first lines.

    Each has a key `revised`: whether the reviewer said something else before.

    Raises:
        UserError: a torn or invalid line, by number.
    """
    path = labels_path(folder)
    lines = read_lines(path)
    bad = [(line, line_problem(line)) for line in lines if line_problem(line)]
    if bad:
        fix = "run inspect_rewards.py review CONFIG again: it moves such lines to a file of their own and goes on"
        raise UserError("labels", [Problem(f"{path} line {line.number}", said, fix) for line, said in bad[:10]])
    latest: dict[tuple[str, str], dict] = {}
    for row in (line.value for line in lines):
        key = (row["sample_id"], row["reviewer"])
        before = latest.get(key)
        revised = before is not None and (before["revised"] or before["label"] != row["label"])
        latest[key] = {**row, "revised": revised}
    return list(latest.values())


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
    return line.problem if line.value is None else _problem(line.value)


def _problem(row: dict) -> str:
    if row.get("schema") != SCHEMA:
        return f"schema is {row.get('schema')!r}, not {SCHEMA}"
    said = [
        f"{name} is {row.get(name)!r}, not some text"
        for name in ("sample_id", "reviewer")
        if not isinstance(row.get(name), str) or not row[name].strip()
    ]
    said += [_not_one_of(row, "label", LABELS), _not_one_of(row, "reviewer_kind", KINDS)]
    if not isinstance(row.get("note", ""), str):
        said.append("note is not text")
    return "; ".join(s for s in said if s)


def _not_one_of(row: dict, name: str, allowed: Collection[str]) -> str:
    return "" if row.get(name) in allowed else f"{name} is {row.get(name)!r}, not {', '.join(allowed)}"
