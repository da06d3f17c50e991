"""The data's files behind the training rows: where a recorded completion's row stands, and whether it trains. Read when first asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.data import rows_in_source
from grpo_rlvr.data_files import numbers
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.jsonl import canonical

SHOWN = 5
MOSTLY = 0.5


class Source:
    """What `data.train` holds, and `data.eval` where that is a file of its own."""

    def __init__(self, config: Config):
        self.config, self.data = config, config.data

    @property
    def leaves_out(self) -> bool:
        """Whether a row's number in the file may be another than among the training rows."""
        return self.data.eval_split is not None or self.data.max_prompt_tokens is not None

    @cached_property
    def _train(self) -> tuple[list[int], list[dict]]:
        return rows_in_source(self.config, "train")

    @property
    def rows(self) -> list[dict]:
        """All rows of `data.train`, held out or not."""
        return self._train[1]

    @cached_property
    def ours(self) -> dict[int, int]:
        """Among the training rows, by the number in the file."""
        return {number: i for i, number in enumerate(self._train[0])}

    @cached_property
    def held_out(self) -> frozenset[int]:
        """Numbers in `data.train` of the rows that `data.eval_split` holds out."""
        return frozenset(rows_in_source(self.config, "eval")[0] if self.data.eval_split is not None else ())

    @cached_property
    def evaluated(self) -> list[dict]:
        """Rows of a `data.eval` of its own."""
        return rows_in_source(self.config, "eval")[1] if self.data.eval is not None and self.data.eval_split is None else []

    def left_out(self, number: int) -> tuple[str, int]:
        """Why a row of `data.train` does not train: the setting; and its number."""
        return ("data.eval_split" if number in self.held_out else "data.max_prompt_tokens", number)

    @cached_property
    def left_out_prompts(self) -> dict[str, tuple[str, int]]:
        """The same for rows that train nowhere, by their prompts, with those of `data.eval`."""
        found = {canonical(row["prompt"]): ("data.eval", i) for i, row in enumerate(self.evaluated)}
        if self.leaves_out:
            found |= {canonical(row["prompt"]): self.left_out(i) for i, row in enumerate(self.rows) if i not in self.ours}
        return found

    def by_value(self, column: str) -> dict[str, int]:
        """Numbers of the rows in `data.train` by `join_key` of a column.

        Raises:
            UserError: the data has no such column, or a value of it in more than one row.
        """
        name = self._column(column)
        where: dict[str, list[int]] = {}
        for i, row in enumerate(self.rows):
            if (key := join_key(row.get(name))) is not None:
                where.setdefault(key, []).append(i)
        if doubled := [key for key, rows in where.items() if len(rows) > 1]:
            shown = "; ".join(f"{key[:60]!r} ({numbers(where[key]).removesuffix(' (from 0)')})" for key in doubled[:SHOWN])
            more = f"; and {len(doubled) - SHOWN} more" if len(doubled) > SHOWN else ""
            message = f"{len(doubled)} values of {column!r} stand in more than one row of data.train: {shown}{more} (from 0)"
            raise UserError(
                "completions",
                Problem(
                    "--match", message, "take rows that repeat another out of the data, name a column that differs in every row, or give prompt_index"
                ),
            )
        return {key: rows[0] for key, rows in where.items()}

    def evaluated_by_value(self, column: str) -> dict[str, tuple[str, int]]:
        """Rows of `data.eval` by `join_key`, as in `left_out_prompts`."""
        name = self._column(column)
        return {key: ("data.eval", i) for i, row in enumerate(self.evaluated) if (key := join_key(row.get(name))) is not None}

    def joining_columns(self, lines: Sequence[Mapping], besides: Collection[str]) -> list[str]:
        """Columns by which all lines name a row: they and the data have them, hardly a value twice in the data and none unknown there."""
        shared = set.intersection(*(set(line) for line in lines)) & set(self.rows[0]) - set(besides) if lines else set()
        found = []
        for name in sorted(shared):
            counts = Counter(join_key(row.get(name)) for row in self.rows)
            # One that some rows share is named too: `--match` then says which, and what to do.
            if all(counts[join_key(line[name])] for line in lines) and len(counts) > MOSTLY * len(self.rows):
                found.append(name)
        return found

    def _column(self, column: str) -> str:
        """The name of a column in our rows; the user may give the one in the file (`data.columns`)."""
        names = set().union(*(row.keys() for row in self.rows))
        ours = column if column in names else next((ours for ours, theirs in self.data.columns.items() if theirs == column), None)
        if ours not in names:
            message = f"the data has no column {column!r}; it has: {', '.join(sorted(names))}"
            raise UserError("completions", Problem("--match", message, "name a column that the data and the file have"))
        return ours


def join_key(value: Any) -> str | None:
    """One text for what is the same in JSON, CSV and Parquet (12, 12.0 and "12"); None for what names no row."""
    if value is None or value == "":
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else canonical(value)
