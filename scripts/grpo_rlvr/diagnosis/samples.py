"""Completions of the start, the middle and the end of a run, best, middle and worst paid, from what the run left on disk."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo_rlvr.diagnosis.metrics import lines
from grpo_rlvr.errors import GrpoRlvrError
from grpo_rlvr.visible import fold

LONGEST = 20_000  # characters of a text that are kept
_RECORDS = re.compile(r"step-(\d+)\.jsonl")


@dataclass(frozen=True)
class Sample:
    """One completion as text, with what it was paid. `place` is best, middle or worst of its step."""

    place: str
    prompt: str
    completion: str
    total: float | None
    scores: dict[str, float | None]


@dataclass(frozen=True)
class Shown:
    """The samples of one step, and where they are from."""

    step: int
    when: str
    source: str
    samples: tuple[Sample, ...]


def shown_samples(root: Path, weights: dict[str, float | None]) -> tuple[list[Shown], str]:
    """(samples at up to three steps, a remark where something is missing).

    TRL's completion tables (`log_completions: true`) hold the training's own completions; without them the held-out
    completions of the evaluations are shown.
    """
    from grpo_rlvr.inspection.tables import table_paths

    remark = ""
    # The table of step 0 is of the evaluation before the training.
    tables = {step: path for step, path in table_paths(root).items() if step > 0} if root.is_dir() else {}
    if tables:
        try:
            return [Shown(step, when, "training", tuple(_of_table(path, weights))) for step, when, path in _three(tables)], ""
        except GrpoRlvrError as exc:
            remark = f"TRL's completion tables are there but cannot be read: {exc.problems[0].message}"
    folder = root / "train" / "logs" / "held_out"
    records = {int(m[1]): path for path in folder.glob("step-*.jsonl") if (m := _RECORDS.fullmatch(path.name))} if folder.is_dir() else {}
    records = {step: path for step, path in sorted(records.items()) if _has_records(path)}
    if records:
        return [Shown(step, when, "held-out prompts", _pick(_of_records(path))) for step, when, path in _three(records)], remark
    return [], remark or "no completions were kept: `log_completions: true` under grpo: keeps a table at each log"


def _three(found: dict[int, Path]) -> list[tuple[int, str, Path]]:
    """First, middle and last by step; fewer if there are fewer."""
    steps = sorted(found)
    middle = min(steps, key=lambda s: abs(s - (steps[0] + steps[-1]) / 2))
    chosen = {steps[0]: "start", middle: "middle", steps[-1]: "end"}
    chosen.setdefault(steps[0], "start")
    return [(s, "start" if s == steps[0] else chosen[s], found[s]) for s in sorted(chosen)]


def _of_table(path: Path, weights: dict[str, float | None]) -> list[Sample]:
    """The best, the middle and the worst paid of a table. The scores choose the rows; only their texts are read, however large the table is."""
    from grpo_rlvr.inspection.tables import read_numbers, read_rows

    scored = []
    for i, row in enumerate(read_numbers(path, "RUN")):
        scores = {k: _number(v) for k, v in row.items()}
        paid = [(weights.get(k) if weights.get(k) is not None else 1.0) * v for k, v in scores.items() if v is not None]
        scored.append((i, math.fsum(paid) if paid else None, scores))
    chosen = _places([total for _, total, _ in scored])
    texts = read_rows(path, set(chosen), "RUN")
    return [
        Sample(place, _text(texts[i].get("prompt")), _text(texts[i].get("completion")), *scored[i][1:])
        for i, place in chosen.items()
        if i in texts
    ]  # fmt: skip


def _has_records(path: Path) -> bool:
    with open(path, "rb") as file:
        return sum(1 for _, _line in zip(range(2), file, strict=False)) == 2


def _of_records(path: Path) -> list[Sample]:
    samples = []
    for row in lines(path):
        if "completion" in row:
            scores = {str(k): _number(v) for k, v in (row.get("scores") or {}).items()}
            samples.append(Sample("", _text(row.get("prompt")), _text(row["completion"]), _number(row.get("total")), scores))
    return samples


def _pick(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    return tuple(replace(samples[i], place=place) for i, place in _places([s.total for s in samples]).items())


def _places(totals: Sequence[float | None]) -> dict[int, str]:
    """Index -> place of the best paid, the one in the middle and the worst paid, in this order; of equals the first. Unscored ones have none."""
    scored = sorted((i for i, total in enumerate(totals) if total is not None), key=lambda i: -totals[i])
    if not scored:
        return dict.fromkeys(range(min(1, len(totals))), "")
    places = {0: "best paid", len(scored) // 2: "middle", len(scored) - 1: "worst paid"}
    return {scored[at]: name for at, name in sorted(places.items())}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _text(value: Any) -> str:
    """A string, or the contents of messages, each after its role; of a very long one the beginning and the end."""
    return fold(_whole(value), LONGEST, LONGEST)


def _whole(value: Any) -> str:
    if isinstance(value, list):
        parts = [m for m in value if isinstance(m, dict)]
        if len(parts) == 1:
            return str(parts[0].get("content") or "")
        return "\n".join(f"[{m.get('role', '?')}] {m.get('content') or ''}" for m in parts)
    return "" if value is None else str(value)
