"""The completion tables that TRL writes during a run (`grpo.log_completions: true`), and other Parquet files of completions.

TRL 1.16 writes `<output_dir>/completions/completions_<step, five digits>.parquet` at every log (`GRPOTrainer.log`): the columns step, prompt,
completion, one a reward, what rewards gave to `log_extra`, and advantage. It holds the last generation batch only, evaluations write it too
(with held-out prompts), and the gold columns are not in it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import Problem, UserError, missing_package
from grpo_rlvr.inspection.jsonl import canonical

OWN = {"step", "prompt", "completion", "advantage"}
SWITCH = "write `log_completions: true` (and `logging_steps: 1`) under grpo: and train; TRL then writes a table at every log"
_NAME = re.compile(r"completions_(\d+)\.parquet")


@dataclass(frozen=True)
class Found:
    """Rows of tables that answer training prompts, as in a file of recorded completions, and how many do not.

    `logged` are the values of the reward columns, aligned with `rows`; None where TRL wrote none.
    """

    rows: list[dict]
    logged: list[dict[str, float | None]]
    held_out: int
    ambiguous: int
    strangers: int


def read_parquet(path: Path, place: str = "--completions") -> list[dict]:
    """The rows of a Parquet file; a key of a message that Arrow filled with null is left out again.

    Raises:
        MissingError: pyarrow is not installed.
        UserError: the file cannot be read.
    """
    with _opened(path, place) as file:
        return [_row(row) for row in file.read().to_pylist()]


def read_numbers(path: Path, place: str) -> list[dict]:
    """The columns of TRL's table that are numbers and not its own (the rewards), row by row; the texts are not read."""
    with _opened(path, place) as file:
        import pyarrow.types as types

        names = [f.name for f in file.schema_arrow if f.name not in OWN and (types.is_floating(f.type) or types.is_integer(f.type))]
        return file.read(columns=names).to_pylist() if names else [{}] * file.metadata.num_rows


def read_rows(path: Path, numbers: Collection[int], place: str) -> dict[int, dict]:
    """Prompt and completion of the rows with these numbers; parts of the file without one of them are not read."""
    found, start = {}, 0
    with _opened(path, place) as file:
        for group in range(file.metadata.num_row_groups):
            first, start = start, start + file.metadata.row_group(group).num_rows
            if not any(first <= i < start for i in numbers):
                continue
            for batch in file.iter_batches(batch_size=64, row_groups=[group], columns=["prompt", "completion"]):
                for i in numbers:
                    if first <= i < first + len(batch):
                        found[i] = _row(batch.slice(i - first, 1).to_pylist()[0])
                first += len(batch)
    return found


@contextlib.contextmanager
def _opened(path: Path, place: str) -> Iterator[Any]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as exc:
        raise missing_package("pyarrow", "reading Parquet files", "pip install datasets") from exc
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            yield file
    except Exception as exc:  # pyarrow's own errors, of many types
        raise UserError("completions", Problem(place, f"{path.name} cannot be read as Parquet: {str(exc)[:120]}")) from exc


def _row(row: dict) -> dict:
    return {k: _messages(v) if k in ("prompt", "completion") else v for k, v in row.items()}


def is_table(rows: Sequence[dict]) -> bool:
    """Whether these are rows of TRL's table."""
    return bool(rows) and set(rows[0]) >= OWN


def table_paths(run: Path) -> dict[int, Path]:
    """TRL's tables of a run by step. `run` is our run folder, TRL's output_dir, or the folder of the tables."""
    for folder in (run / "train" / "checkpoints" / "completions", run / "completions", run):
        found = {int(m[1]): path for path in folder.glob("completions_*.parquet") if (m := _NAME.fullmatch(path.name))}
        if found:
            return dict(sorted(found.items()))
    return {}


def of_training(table: Sequence[dict], rows: Sequence[dict], held_out: Sequence[dict] = ()) -> Found:
    """The rows of TRL's table that answer a training prompt, each with its `prompt_index`.

    TRL keeps no row number, so the prompt tells. A prompt that the training data has with different golds tells nothing and is left out.
    """
    numbers: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        numbers.setdefault(canonical(row["prompt"]), []).append(i)
    evaluated = {canonical(row["prompt"]) for row in held_out}
    kept, logged, others, ambiguous, strangers = [], [], 0, 0, 0
    for row in table:
        prompt = canonical(row["prompt"])
        found = numbers.get(prompt, [])
        if not found:
            others += prompt in evaluated
            strangers += prompt not in evaluated
        elif len({canonical(_gold(rows[i])) for i in found}) > 1:
            ambiguous += 1
        else:
            kept.append({"prompt_index": found[0], "completion": row["completion"]})
            logged.append({k: _number(v) for k, v in row.items() if k not in OWN})
    return Found(kept, logged, others, ambiguous, strangers)


def _gold(row: dict) -> dict:
    return {k: v for k, v in row.items() if k not in ("prompt", "row_id")}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value == value else None


def _messages(value: Any) -> Any:
    """Messages as they were before Arrow gave each of them every key."""
    if not isinstance(value, list) or not all(isinstance(m, dict) for m in value):
        return value
    return [{k: _messages(v) for k, v in message.items() if v is not None or k == "content"} for message in value]
