"""A file of recorded completions, read: JSON lines, Parquet, or a table that TRL wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grpo_rlvr.cli import say
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.jsonl import Line, read_lines
from grpo_rlvr.inspection.placing import OWN_KEYS, matched, placed
from grpo_rlvr.inspection.provenance import latest_step
from grpo_rlvr.inspection.recorded_lines import FORMAT, checked_samples
from grpo_rlvr.inspection.source import Source
from grpo_rlvr.inspection.tables import OWN, is_table, of_training, read_parquet


@dataclass(frozen=True)
class Recorded:
    """The samples of a file; `step` is the step of the run that wrote them, where each line names one."""

    samples: list[dict]
    step: int | None


def read_recorded(path: Path, rewards: Sequence, rows: Sequence[dict]) -> list[dict]:
    """The samples of a file whose lines name training rows as `rows` has them."""
    return read_file(path, rewards, rows).samples


def read_file(path: Path, rewards: Sequence, rows: Sequence[dict], source: Source | None = None, match: str | None = None) -> Recorded:
    """The samples of a file in the format of `FORMAT`, every line checked.

    Args:
        source: the data's files. Completions of rows that do not train are left out then, and row numbers are those of the file.
        match: the column that names a line's row; needs `source`.
    """
    if not path.is_file():
        fix = "a table in it, or --from-run for a run in progress" if path.is_dir() else "give a .jsonl or .parquet file"
        raise UserError("completions", Problem("--completions", f"there is no file {path}" if not path.is_dir() else f"{path} is a folder", fix))
    lines, step = _parquet_lines(path, rows, match) if path.suffix.lower() == ".parquet" else (read_lines(path), None)
    if not lines:
        raise UserError("completions", Problem("--completions", f"{path} is empty", FORMAT))
    if step is None and not any("step" in row for row in rows):  # else it is a gold column
        step = latest_step([line.value.get("step") for line in lines if not line.problem])
    out = []
    if match is not None and source is not None:
        lines, out = matched(lines, match, source, path.name)
    if source is not None:
        lines = placed(lines, out, source, rows, path.name)
    return Recorded(checked_samples(lines, path.name, rewards, rows, source), step)


def _parquet_lines(path: Path, rows: Sequence[dict], match: str | None) -> tuple[list[Line], int | None]:
    """The rows of a Parquet file as lines, and TRL's step. Null means not given for our own keys, since a column cannot be absent in one row."""
    table, step = read_parquet(path), None
    if is_table(table):
        step = latest_step([row["step"] for row in table])
        if match is None:
            table = _answering(table, rows, path.name)
        elif match not in OWN | OWN_KEYS:  # a column that a reward gave to `log_extra`
            table = [{k: v for k, v in row.items() if k in ("completion", match)} for row in table]
    return [Line(number, None, {k: v for k, v in row.items() if v is not None or k not in OWN_KEYS}) for number, row in enumerate(table)], step


def _answering(table: Sequence[dict], rows: Sequence[dict], name: str) -> list[dict]:
    found = of_training(table, rows)
    if not found.rows:
        fix = "the table may be of an evaluation (TRL writes those too) or of other data; take another step's"
        raise UserError("completions", Problem("--completions", f"no row of {name} answers a prompt of the training data", fix))
    if len(found.rows) < len(table):
        say(f"{len(table) - len(found.rows)} of {len(table)} rows of {name} answer no training prompt, or one with two golds; left out")
    return found.rows
