"""Rows as they stand in a file (.jsonl, .json, .csv, .parquet) or a hub data set, with every unreadable line named."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

from grpo_rlvr.config import Config, looks_like_hub_name
from grpo_rlvr.errors import Problem, UserError, missing_package

SHOWN = 10  # rows named in one message; the rest is counted


def read_source(config: Config, source: str, place: str) -> list[dict]:
    """All rows of the source, or its first `data.limit`: nothing behind them is read (but in .json), or downloaded from the hub.

    TRL takes endless streams, we do not: the gate's fingerprint, the check of each gold, the search for held-out prompts among the training
    ones and an exact resume need rows that are known beforehand.
    """
    return _read_all(config, source, place, config.data.limit)[: config.data.limit]


def _read_all(config: Config, source: str, place: str, limit: int | None) -> list[dict]:
    path = config.resolve(source)
    if path.is_file():
        readers = {".jsonl": _read_jsonl, ".json": _read_json, ".csv": _read_csv, ".parquet": _read_parquet}
        reader = readers.get(path.suffix.lower())
        if reader is None:
            raise UserError("data", Problem(place, f"cannot read '{path.suffix}' files ({source})", "use .jsonl, .json, .csv or .parquet"))
        try:
            return reader(path, place, limit)
        except UnicodeDecodeError as exc:
            raise UserError("data", Problem(place, f"{source} is not UTF-8 text (byte {exc.start})", "convert the file to UTF-8")) from exc
    if path.is_dir() or not looks_like_hub_name(source):
        what = "is a folder" if path.is_dir() else "is not there"
        raise UserError(
            "data",
            Problem(
                place, f"{source} {what} (looked for {path})", "give a .jsonl, .json, .csv or .parquet file, or a hub data set 'owner/name:split'"
            ),
        )
    return _read_hub(source, "train" if place == "data.train" else "test", place, limit)


def _read_jsonl(path: Path, place: str, limit: int | None) -> list[dict]:
    rows, problems = [], []
    with open(path, encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if limit is not None and len(rows) >= limit:
                break
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as exc:
                problems.append(Problem(f"{place} line {number}", f"not JSON ({str(exc)[:80]}): {line.strip()[:60]}", "one JSON object a line"))
                continue
            if isinstance(value, dict):
                rows.append(value)
            else:
                problems.append(
                    Problem(f"{place} line {number}", f"a {type(value).__name__}, not an object: {line.strip()[:60]}", "one JSON object a line")
                )
    if problems:
        raise UserError("data", problems[:SHOWN] + ([Problem(place, f"and {len(problems) - SHOWN} more lines")] if len(problems) > SHOWN else []))
    return rows


def _read_json(path: Path, place: str, limit: int | None) -> list[dict]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as exc:
        raise UserError("data", Problem(place, f"{path.name} is not JSON: {str(exc)[:120]}", "a list of objects, or use .jsonl")) from exc
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError("data", Problem(place, f"{path.name} is not a list of objects", "a list of objects, or use .jsonl"))
    return rows


def _read_csv(path: Path, place: str, limit: int | None) -> list[dict]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            rows = list(islice(reader, limit))
    except csv.Error as exc:
        raise UserError("data", Problem(place, f"{path.name} cannot be read as CSV: {exc}", "use .jsonl")) from exc
    twice = sorted({name for name in reader.fieldnames or [] if (reader.fieldnames or []).count(name) > 1})
    if twice:
        raise UserError("data", Problem(place, f"{path.name} has the column {', '.join(map(repr, twice))} more than once", "rename or remove one"))
    uneven = [i for i, row in enumerate(rows) if None in row or None in row.values()]
    if uneven:
        raise UserError("data", Problem(f"{place} {numbers(uneven)}", "not as many fields as the header has", "quote fields that hold commas"))
    return rows


def _read_parquet(path: Path, place: str, limit: int | None) -> list[dict]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as exc:
        raise missing_package("pyarrow", "reading .parquet data", "pip install datasets") from exc
    try:
        if limit is None:
            return parquet.read_table(path).to_pylist()
        with parquet.ParquetFile(path) as file:
            batches = file.iter_batches(batch_size=min(limit, 65536))
            return list(islice((row for batch in batches for row in batch.to_pylist()), limit))
    except Exception as exc:
        raise UserError("data", Problem(place, f"{path.name} cannot be read as Parquet: {str(exc)[:120]}")) from exc


def _read_hub(source: str, default_split: str, place: str, limit: int | None = None) -> list[dict]:
    try:
        from datasets import load_dataset
    except ImportError as exc:
        raise missing_package("datasets", f"reading {source} from the hub", "pip install datasets") from exc
    from grpo_rlvr.environment.places import cache_only, hub_silent

    name, *rest = source.split(":")
    split = rest[-1] if rest else default_split
    silent = hub_silent()
    try:
        with cache_only(silent):
            return list(islice(load_dataset(name, *rest[:-1], split=split, streaming=limit is not None), limit))
    except Exception as exc:
        why = f"the hub does not answer ({silent})" if silent else str(exc).splitlines()[0][:160]
        fix = f"if it is a file, check the path; if it is a hub data set, check '{name}:split' or '{name}:configuration:split', and the network"
        raise UserError("data", Problem(place, f"'{source}' is neither a file nor a data set that could be loaded: {why}", fix)) from exc


def numbers(indices: Iterable[int]) -> str:
    """'row 3' or 'rows 3, 5, 8 and 12 more'."""
    indices = list(indices)
    shown = ", ".join(map(str, indices[:SHOWN]))
    return f"row{'s' if len(indices) > 1 else ''} {shown}" + (f" and {len(indices) - SHOWN} more" if len(indices) > SHOWN else "") + " (from 0)"


def row_number(row: Mapping, position: int) -> int:
    """Where a row stands in its source, from 0: as its `row_id` says, since a split and a longest prompt leave rows out; else `position`."""
    number = str(row.get("row_id", "")).rpartition(":")[2]
    return int(number) if number.isdecimal() else position
