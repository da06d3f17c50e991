"""Prompts and gold columns from a file or the hub, as plain rows.

A row is a dict with `prompt` (text, or a list of messages) and the gold columns the rewards read. Inspection and training
see the same values: nested columns are JSON text in both, because Arrow would fill the missing keys of a dict with nulls.
"""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.config import Config, looks_like_hub_name
from grpo_rlvr.errors import GoldError, Problem, UserError, missing_package

# TRL passes these to every reward itself; a column of the same name is lost or makes the call fail.
RESERVED_COLUMNS = (
    "self",
    "rewards",
    "prompts",
    "completions",
    "completion",
    "completion_ids",
    "trainer_state",
    "log_extra",
    "log_metric",
    "environments",
)
ROW_ID = "row_id"
SHOWN = 10  # rows named in one message; the rest is counted


def load_rows(config: Config, split: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Read the `train` or `eval` rows of the config, renamed by `data.columns` and checked.

    Args:
        split: "train" or "eval". "eval" without `data.eval` gives an empty list.
        limit: keep only the first rows; the checks cover the rows that are kept.

    Returns:
        Rows in file order, each with `row_id` ("train:0", ...), `prompt` and the other columns.

    Raises:
        UserError: no such file, no rows, a missing column, an empty prompt, a reserved column name; all problems at once.
    """
    source = config.data.train if split == "train" else config.data.eval
    if source is None:
        return []
    place = f"data.{split}"
    rows = _read(config, source, place)
    if not rows:
        raise UserError("data", Problem(place, f"{source} holds no rows", "each row needs at least a prompt and the columns that the rewards read"))
    every = _rename(rows, dict(config.data.columns), place)
    rows = [dict(row) for row in every[:limit]]
    _check_prompts(rows, place)
    if config.data.system_prompt is not None:
        rows = [{**row, "prompt": _with_system(row["prompt"], config.data.system_prompt)} for row in rows]
    _plain_columns(rows, [*every, *_other_split(config, split)])
    return [{ROW_ID: f"{split}:{i}", **row} for i, row in enumerate(rows)]


def raw_lines(config: Config, split: str) -> list[str]:
    """The rows of a split as JSON lines, in the order of `load_rows` and as they stand in the file: a line of a .jsonl file is copied."""
    source = config.data.train if split == "train" else config.data.eval
    path = config.resolve(source)
    if path.suffix.lower() == ".jsonl" and path.is_file():
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    return [json.dumps(row, ensure_ascii=False, default=str) for row in _read(config, source, f"data.{split}")]


def check_rows(rewards: Sequence, rows: Sequence[dict], place: str = "data.train") -> None:
    """Refuse rows whose gold a reward cannot read, naming their numbers (0-based) and the reason.

    Args:
        rewards: what `rewards.build_rewards` returned.

    Raises:
        UserError: a column that a reward needs is missing.
        GoldError: gold that a reward cannot read.
    """
    columns = set().union(*(row.keys() for row in rows))
    absent = [(r, c) for r in rewards for c in r.columns if c not in columns]
    if absent:
        names = sorted(columns - {ROW_ID, "prompt"})
        have = ", ".join(names) or "none"
        problems = []
        for reward, column in absent:
            close = difflib.get_close_matches(column, names, n=1)
            hint = f"did you mean '{close[0]}'? " if close else ""
            fix = f"{hint}Add it, or map it: data.columns: {{{column}: <name in the file>}}"
            problems.append(Problem(place, f"reward '{reward.name}' needs the column '{column}'; the data has: {have}", fix))
        raise UserError("data", problems)
    problems = []
    for reward in rewards:
        bad: dict[str, list[int]] = {}
        for i, row in enumerate(rows):
            reason = reward.gold_problem(row)
            if reason is not None:
                bad.setdefault(reason, []).append(i)
        problems += [
            Problem(f"{place} {_numbers(where)}", f"reward '{reward.name}': {reason}", "mend or remove these rows") for reason, where in bad.items()
        ]
    if problems:
        more = len(problems) - SHOWN
        raise GoldError(problems[:SHOWN] + ([Problem(place, f"and {more} more kinds of unreadable gold")] if more > 0 else []))
    _try(rewards, rows[:2])


def _try(rewards: Sequence, rows: Sequence[dict]) -> None:
    """Call each reward once as TRL would, on empty completions, before anything slow: a function that cannot run says so now."""
    from grpo_rlvr.rewards import score_all

    for reward in rewards:
        if callable(getattr(reward.function, "prepare", None)):
            reward.function.prepare()
    completions = ["" if isinstance(row["prompt"], str) else [{"role": "assistant", "content": ""}] for row in rows]
    columns = {name: [row.get(name) for row in rows] for name in set().union(*(row.keys() for row in rows)) - {"prompt"}}
    score_all(list(rewards), completions, prompts=[row["prompt"] for row in rows], completion_ids=[[0]] * len(rows), **columns)


def to_dataset(rows: Sequence[dict]):
    """The rows as a `datasets.Dataset`, column types as Arrow infers them."""
    from datasets import Dataset

    # TRL takes any 'image(s)' column, even one full of None, for a multimodal run.
    kept = [{k: v for k, v in row.items() if k not in ("image", "images")} for row in rows]
    try:
        return Dataset.from_list(kept)
    except Exception as exc:  # pyarrow's own errors, of many types
        message = f"Arrow cannot hold the rows: {type(exc).__name__}: {str(exc)[:200]}"
        raise UserError("data", Problem("data", message, "bring each column, and the keys of the messages, to one type")) from exc


def _read(config: Config, source: str, place: str) -> list[dict]:
    path = config.resolve(source)
    if path.is_file():
        readers = {".jsonl": _read_jsonl, ".json": _read_json, ".csv": _read_csv, ".parquet": _read_parquet}
        reader = readers.get(path.suffix.lower())
        if reader is None:
            raise UserError("data", Problem(place, f"cannot read '{path.suffix}' files ({source})", "use .jsonl, .json, .csv or .parquet"))
        try:
            return reader(path, place)
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
    return _read_hub(source, "train" if place == "data.train" else "test", place)


def _read_jsonl(path: Path, place: str) -> list[dict]:
    rows, problems = [], []
    with open(path, encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
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


def _read_json(path: Path, place: str) -> list[dict]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as exc:
        raise UserError("data", Problem(place, f"{path.name} is not JSON: {str(exc)[:120]}", "a list of objects, or use .jsonl")) from exc
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError("data", Problem(place, f"{path.name} is not a list of objects", "a list of objects, or use .jsonl"))
    return rows


def _read_csv(path: Path, place: str) -> list[dict]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            rows = list(reader)
    except csv.Error as exc:
        raise UserError("data", Problem(place, f"{path.name} cannot be read as CSV: {exc}", "use .jsonl")) from exc
    twice = sorted({name for name in reader.fieldnames or [] if (reader.fieldnames or []).count(name) > 1})
    if twice:
        raise UserError("data", Problem(place, f"{path.name} has the column {', '.join(map(repr, twice))} more than once", "rename or remove one"))
    uneven = [i for i, row in enumerate(rows) if None in row or None in row.values()]
    if uneven:
        raise UserError("data", Problem(f"{place} {_numbers(uneven)}", "not as many fields as the header has", "quote fields that hold commas"))
    return rows


def _read_parquet(path: Path, place: str) -> list[dict]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as exc:
        raise missing_package("pyarrow", "reading .parquet data", "pip install datasets") from exc
    try:
        return parquet.read_table(path).to_pylist()
    except Exception as exc:
        raise UserError("data", Problem(place, f"{path.name} cannot be read as Parquet: {str(exc)[:120]}")) from exc


def _read_hub(source: str, default_split: str, place: str) -> list[dict]:
    try:
        from datasets import load_dataset
    except ImportError as exc:
        raise missing_package("datasets", f"reading {source} from the hub", "pip install datasets") from exc
    name, *rest = source.split(":")
    split = rest[-1] if rest else default_split
    try:
        return list(load_dataset(name, *rest[:-1], split=split))
    except Exception as exc:
        fix = f"if it is a file, check the path; if it is a hub data set, check '{name}:split' or '{name}:configuration:split', and the network"
        raise UserError(
            "data", Problem(place, f"'{source}' is neither a file nor a data set that could be loaded: {str(exc).splitlines()[0][:160]}", fix)
        ) from exc


def _rename(rows: list[dict], columns: dict[str, str], place: str) -> list[dict]:
    present = set().union(*(row.keys() for row in rows))
    problems = [
        Problem(f"data.columns.{ours}", f"the data has no column '{theirs}'; it has: {', '.join(sorted(map(str, present)))}")
        for ours, theirs in columns.items()
        if theirs not in present
    ]
    back = {theirs: ours for ours, theirs in columns.items()}
    renamed = [{back.get(k, k): v for k, v in row.items() if k in back or k not in columns} for row in rows]
    names = set().union(*(row.keys() for row in renamed))
    if "prompt" not in names and not problems:
        have = ", ".join(sorted(map(str, names)))
        problems.append(
            Problem(place, f"no column 'prompt'; the data has: {have}", "rename it, or map it: data.columns: {prompt: <name in the file>}")
        )
    problems += [
        Problem(place, f"the column name '{c}' is reserved by TRL", f"map it to another name: data.columns: {{my_{c}: {c}}}")
        for c in (*RESERVED_COLUMNS, ROW_ID)
        if c in names
    ]
    if problems:
        raise UserError("data", problems)
    return renamed


def _check_prompts(rows: list[dict], place: str) -> None:
    bad: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        reason = _prompt_problem(row.get("prompt"))
        if reason:
            bad.setdefault(reason, []).append(i)
    if not bad and len({isinstance(row["prompt"], str) for row in rows}) > 1:
        bad["some prompts are text and some are messages; TRL needs one format"] = [i for i, r in enumerate(rows) if isinstance(r["prompt"], str)]
    if not bad:
        contents = [{type(m["content"]) for m in row["prompt"]} if isinstance(row["prompt"], list) else {str} for row in rows]
        if len(set().union(*contents)) > 1:
            bad["some message contents are text and some are lists of parts; Arrow holds one kind"] = [i for i, c in enumerate(contents) if list in c]
    if bad:
        raise UserError(
            "data",
            [
                Problem(f"{place} {_numbers(where)}", reason, "a prompt is text or a list of {role, content} messages")
                for reason, where in bad.items()
            ],
        )


def _prompt_problem(prompt: object) -> str | None:
    if isinstance(prompt, str):
        if any("\ud800" <= c <= "\udfff" for c in prompt):
            return "the prompt holds half a surrogate pair"
        return None if prompt.strip() else "the prompt is empty"
    if not isinstance(prompt, list):
        return f"the prompt is {'missing' if prompt is None else 'a ' + type(prompt).__name__}"
    if not prompt:
        return "the prompt has no messages"
    if not all(isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str | list) for m in prompt):
        return "a message of the prompt lacks role or content"
    try:
        json.dumps(prompt, ensure_ascii=False).encode()
    except (UnicodeEncodeError, TypeError, RecursionError):
        return "the prompt holds something that is no text (half a surrogate pair, or an odd object)"
    return None


def _with_system(prompt: str | list[dict], text: str) -> list[dict]:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return messages if messages[0]["role"] == "system" else [{"role": "system", "content": text}, *messages]


def _other_split(config: Config, split: str) -> list[dict]:
    """The rows of the other split: a column is text in both or in neither, or a reward would see two types of the same gold."""
    other = "eval" if split == "train" else "train"
    source = config.data.eval if other == "eval" else config.data.train
    if source is None:
        return []
    return _rename(_read(config, source, f"data.{other}"), dict(config.data.columns), f"data.{other}")


def _plain_columns(rows: list[dict], all_rows: list[dict]) -> None:
    """Bring each gold column to one type that Arrow gives back unchanged.

    Nested values become JSON text; so does everything but text in a column of several types (of 3 and 2.5 Arrow would make 3.0
    and 2.5), and what Arrow has no type for (dates of a Parquet file, integers above 64 bits).
    """
    for name in sorted(set().union(*(row.keys() for row in rows)) - {"prompt"}):
        plain = _one_plain_type([row.get(name) for row in all_rows])
        for row in rows:
            value = row.get(name)
            encode = value is not None and not isinstance(value, str) and not plain
            row[name] = json.dumps(value, ensure_ascii=False, default=str) if encode else value


def _one_plain_type(values: list) -> bool:
    kinds = {type(v) for v in values if v is not None}
    if kinds == {list}:
        return _one_plain_type([x for v in values if v is not None for x in v]) and not any(isinstance(x, list) for v in values if v for x in v)
    if kinds == {int}:
        return all(v is None or -(2**63) <= v < 2**63 for v in values)
    return len(kinds) == 0 or (len(kinds) == 1 and kinds <= {str, float, bool})


def _numbers(indices: Iterable[int]) -> str:
    """'row 3' or 'rows 3, 5, 8 and 12 more'."""
    indices = list(indices)
    shown = ", ".join(map(str, indices[:SHOWN]))
    return f"row{'s' if len(indices) > 1 else ''} {shown}" + (f" and {len(indices) - SHOWN} more" if len(indices) > SHOWN else "") + " (from 0)"
