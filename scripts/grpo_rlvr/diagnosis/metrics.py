"""The log of a run, read from what there is: a run folder, trainer_state.json, progress lines, TensorBoard, a CSV export."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_rlvr.diagnosis.names import canonical, is_known, reward_name, timed_part
from grpo_rlvr.diagnosis.series import Series
from grpo_rlvr.diagnosis.values import LARGEST, flat, number
from grpo_rlvr.errors import Problem, UserError

EMPTY = Series((), ())


@dataclass
class Log:
    """Metrics by canonical name, aligned with `steps` (rising, each once). None: not logged at that step; nan and inf are kept.

    Attributes:
        evaluations: metrics of evaluations (without `eval_`), by step.
        nulls: how often a metric was there without a value, by name.
        kind: what was read, in words.
        stepless: lines with metrics and no step.
    """

    steps: list[int] = field(default_factory=list)
    columns: dict[str, list[float | None]] = field(default_factory=dict)
    evaluations: dict[str, dict[int, float]] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)
    kind: str = "log"
    stepless: int = 0
    end: dict[str, float] = field(default_factory=dict)  # the trainer's summary: train_runtime and the like
    settings: dict[str, Any] = field(default_factory=dict)  # what a tracker kept of the trainer's arguments
    _series: dict[str, Series] = field(default_factory=dict, repr=False)

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def series(self, name: str) -> Series:
        """The finite values of `name`; empty if it was not logged."""
        if name not in self._series:
            column = self.columns.get(name, [])
            if _all_finite(column):
                self._series[name] = Series(self.steps, column) if column else EMPTY
            else:
                pairs = [(s, v) for s, v in zip(self.steps, column, strict=True) if v is not None and math.isfinite(v)]
                self._series[name] = Series([s for s, _ in pairs], [v for _, v in pairs]) if pairs else EMPTY
        return self._series[name]

    def evaluation(self, name: str) -> Series:
        found = sorted((s, v) for s, v in self.evaluations.get(name, {}).items() if math.isfinite(v))
        return Series([s for s, _ in found], [v for _, v in found]) if found else EMPTY

    def nonfinite(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of the values that are nan or infinite."""
        column = self.columns.get(name, [])
        if _all_finite(column):
            return []
        return [(s, v) for s, v in zip(self.steps, column, strict=True) if v is not None and not math.isfinite(v)]

    def count(self, name: str) -> int:
        """Lines that hold a value of `name`, finite or not."""
        column = self.columns.get(name, [])
        return len(column) - column.count(None)

    @property
    def rewards(self) -> list[str]:
        """Names of the rewards, in the order they were logged."""
        return [name for column in self.columns if (name := reward_name(column))]

    @property
    def unknown(self) -> list[str]:
        return sorted(name for name in self.columns if not is_known(name))

    @property
    def last_step(self) -> int:
        return self.steps[-1] if self.steps else 0

    @property
    def every(self) -> int:
        """Steps between two lines, usually."""
        gaps = sorted(b - a for a, b in zip(self.steps, self.steps[1:], strict=False))
        return gaps[len(gaps) // 2] if gaps else 1


def _all_finite(column: list[float | None]) -> bool:
    """Whether every value is there and finite; quick, since long logs are asked for it by every rule."""
    return None not in column and math.isfinite(sum(column))


def build(rows: Iterable[Mapping[str, Any]], kind: str) -> Log:
    """A log from rows of raw names; a step that comes again (a resumed run) replaces the earlier one.

    A row without a step (profiling times) belongs to the next one with a step.
    """
    log, names, waiting = Log(kind=kind), {}, {}
    last: int | None = None
    ordered = True
    alike: tuple[str, ...] = ()  # the names of the last line, and where its values went: most lines are like the one before
    places: list[list] = []
    for row in rows:
        if dict in map(type, row.values()):
            row = flat(row)
        if places and tuple(row) == alike and type(step := row["step"]) is int and step > last and not waiting:
            last = step
            log.steps.append(step)
            for column, (key, raw) in zip(places, row.items(), strict=True):
                column.append(raw if type(raw) is float and -LARGEST < raw < LARGEST else number(raw))
                if raw is None:
                    log.nulls[names[key]] = log.nulls.get(names[key], 0) + 1
            continue
        step = _step(row)
        values, ended = {}, "train_runtime" in row
        for key, raw in row.items():
            name = names.get(key) or names.setdefault(key, canonical(key))
            if name in ("step", "nonfinite", "schema"):
                continue
            values[name] = number(raw)
            if raw is None:
                log.nulls[name] = log.nulls.get(name, 0) + 1
        broken = row.get("nonfinite")
        for name in broken if isinstance(broken, list) else ():
            values[canonical(str(name))] = math.nan
        if step is None:
            waiting.update({k: v for k, v in values.items() if v is not None})
            log.stepless += 1
            continue
        held_out = {k[5:]: values.pop(k) for k in [k for k in values if k.startswith("eval_")]}
        for name, value in held_out.items():
            if value is not None:
                log.evaluations.setdefault(name, {})[step] = value
        if ended:
            log.end = {k: v for k, v in values.items() if v is not None and k.startswith("train_") or k == "total_flos"}
            values = {k: v for k, v in values.items() if k not in log.end and k != "loss"}
        if waiting:
            values, waiting = {**waiting, **values}, {}
        if not any(v is not None for v in values.values()) and not any(k in values for k in ("loss", "reward")):
            continue
        if ended and not ("reward" in values or "completions/mean_length" in values):
            continue
        ordered = ordered and (last is None or step > last)
        last = step
        n = len(log.steps)
        log.steps.append(step)
        columns = log.columns
        for name, value in values.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = []
            if len(column) < n:
                column.extend([None] * (n - len(column)))
            column.append(value)
        alike, places = tuple(row), _places(row, names, columns)
    log.columns.pop("step", None)
    for column in log.columns.values():
        column.extend([None] * (len(log.steps) - len(column)))
    _name_times(log)
    return log if ordered else _merge(log)


def _places(row: Mapping[str, Any], names: Mapping[str, str], columns: dict[str, list]) -> list[list]:
    """The column of each value of the line, where the next line may be appended value by value; empty where it needs more care."""
    if not isinstance(row.get("step"), int) or any(v is not None and not isinstance(v, int | float) for v in row.values()):
        return []
    targets = ["step" if key == "step" else names[key] for key in row]
    if len(set(targets)) < len(targets) or any(t.startswith("eval_") or t == "schema" for t in targets) or "train_runtime" in row:
        return []
    return [columns.setdefault(t, []) for t in targets]


def _merge(log: Log) -> Log:
    """One row a step: values that came later win, and what only the earlier row had stays if both are of one pass through the run."""
    rows: dict[int, int] = {}
    back = sum(b < a for a, b in zip(log.steps, log.steps[1:], strict=False))
    if 2 * back > len(log.steps):  # newest line first, as some exports have it: no run is resumed at every other line
        log.steps.reverse()
        for column in log.columns.values():
            column.reverse()
    for i, step in enumerate(log.steps):
        if rows and step < max(rows):
            rows = {s: at for s, at in rows.items() if s < step}  # the run was resumed from an earlier step
        if step in rows:
            at = rows[step]
            for column in log.columns.values():
                column[i] = column[at] if column[i] is None else column[i]
        rows[step] = i
    kept = [rows[s] for s in sorted(rows)]
    log.columns = {name: [column[i] for i in kept] for name, column in log.columns.items()}
    log.steps = sorted(rows)
    return log


def _name_times(log: Log) -> None:
    """TRL's profiling times, `profiling/Time taken: GRPOTrainer.<part>`, of rewards under the name that ours have."""
    known = set(log.rewards)
    for name in list(log.columns):
        part = timed_part(name)
        if part in known and f"reward_seconds/{part}" not in log.columns:
            log.columns[f"reward_seconds/{part}"] = log.columns.pop(name)


def _step(row: Mapping[str, Any]) -> int | None:
    for name in ("step", "train/global_step", "global_step"):
        if (value := number(row.get(name))) is not None and math.isfinite(value):
            return int(value)
    return None


def read_log(path: Path) -> Log:
    """Read whatever `path` is.

    Raises:
        UserError: nothing there is a log of a run, or a file cannot be read.
    """
    from grpo_rlvr.diagnosis import readers

    path = Path(path).expanduser()
    try:
        if not path.exists():
            raise UserError("run", Problem(str(path), "there is no such file or folder", readers.TAKEN))
        if path.is_dir():
            return readers.of_folder(path)
        if not path.is_file():  # a pipe would be waited for without end
            raise UserError("run", Problem(str(path), "this is neither a file nor a folder", readers.TAKEN))
        return readers.of_file(path)
    except OSError as exc:
        problem = Problem(str(exc.filename or path), f"cannot be read: {exc.strerror or exc}", "its owner and mode are shown by `ls -l`")
        raise UserError("run", problem) from exc


def lines(path: Path) -> Iterable[dict]:
    """The objects of a file with one JSON object a line; a line that a kill cut short is passed over."""
    with open(path, "rb") as file:
        for raw in file:
            try:
                value = json.loads(raw)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value
