"""What W&B and Trackio keep on the machine that trains: `wandb/*run-*/run-*.wandb` and Trackio's `<project>.db`. Neither package is needed.

A .wandb file is a log of LevelDB's form (https://github.com/google/leveldb/blob/main/doc/log_format.md) after a header of 7 bytes; each
entry is a `Record` of wandb's wandb_internal.proto: history = 2, config = 5, run = 17 (its config = 4); a history's items are its field 1,
a config's updates too, and both have key = 1, nested_key = 2, value_json = 16. Trackio's file is an SQLite database with the tables
`metrics` (run_name, step, metrics as JSON) and `configs` (run_name, config as JSON). Seen with wandb 0.31 and trackio 0.43.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_rlvr.diagnosis.event_files import fields

_BLOCK, _HEAD, _MAGIC = 32_768, 7, b":W&B"
_NO_METRICS = ("_step", "_runtime", "_timestamp", "_wandb", "train/global_step", "global_step")
_STEPS = ("train/global_step", "global_step")


def wandb_file(path: Path) -> tuple[list[dict], dict[str, Any]]:
    """(rows, settings) of a .wandb file; one that is still being written ends where it ends. ([], {}) if it is none."""
    rows, settings = [], {}
    for entry in _entries(path):
        try:
            for number, kind, value in fields(entry):
                if number == 2 and kind == 2:
                    rows.append(_row(dict(_items(value))))
                elif number == 5 and kind == 2:
                    settings.update(_items(value))
                elif number == 17 and kind == 2:
                    for inner, inner_kind, config in fields(value):
                        settings.update(_items(config) if inner == 4 and inner_kind == 2 else ())
        except (IndexError, ValueError):
            break
    return rows, settings


def trackio_file(path: Path) -> dict[str, tuple[list[dict], dict[str, Any]]]:
    """(rows, settings) of each run in a Trackio database, by the run's name; {} if it is none."""
    runs: dict[str, tuple[list[dict], dict[str, Any]]] = {}
    # `immutable` would miss what a running training still keeps beside the file; `mode=ro` writes nothing to it.
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=5)) as base:
        for name, step, text in base.execute("select run_name, step, metrics from metrics order by id"):
            values = _object(text)
            rows, _ = runs.setdefault(name, ([], {}))
            rows.append(_row({"global_step": step, **values} if not any(k in values for k in _STEPS) else values))
        for name, text in base.execute("select run_name, config from configs"):
            if name in runs:
                runs[name][1].update(_object(text))
    return runs


def _row(values: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a line (tables and pictures are objects), with their step."""
    step = next((values[name] for name in _STEPS if name in values), None)
    return {k: v for k, v in values.items() if k not in _NO_METRICS and not isinstance(v, dict | list)} | {"step": step}


def _items(data: bytes) -> Iterator[tuple[str, Any]]:
    """(name, value) of a history's items or a config's updates."""
    for number, kind, item in fields(data):
        if number != 1 or kind != 2:
            continue
        key, nested, value = "", [], None
        for inner, inner_kind, part in fields(item):
            if inner_kind == 2 and inner == 1:
                key = part.decode("utf-8", "replace")
            elif inner_kind == 2 and inner == 2:
                nested.append(part.decode("utf-8", "replace"))
            elif inner_kind == 2 and inner == 16:
                value = _value(part)
        if key or len(nested) == 1:  # deeper ones are the parts of a table or a picture
            yield key or nested[0], value


def _value(text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _object(text: bytes | str) -> dict[str, Any]:
    value = _value(text)
    return value if isinstance(value, dict) else {}


def _entries(path: Path) -> Iterator[bytes]:
    """Entries of the log, each put together from its pieces (1 whole, 2 first, 3 middle, 4 last)."""
    with open(path, "rb") as file:
        if file.read(_HEAD)[: len(_MAGIC)] != _MAGIC:
            return
        at, parts = _HEAD, []
        while True:
            left = _BLOCK - at % _BLOCK
            if left < _HEAD:
                at += len(file.read(left))
                continue
            head = file.read(_HEAD)
            if len(head) < _HEAD:
                return
            length, kind = struct.unpack("<HB", head[4:])
            data = file.read(length)
            if len(data) < length or kind not in (1, 2, 3, 4):
                return
            at += _HEAD + length
            parts = [data] if kind in (1, 2) else [*parts, data]
            if kind in (1, 4):
                yield b"".join(parts)
