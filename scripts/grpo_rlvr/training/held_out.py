"""Held-out accuracy before and after: the same prompts, paired, with a confidence interval.

TRL's own evaluation generates the completions (so vLLM and several processes work as in training) and the reward adapter
records how each was judged. One file an evaluation, `train/logs/held_out/step-000080.jsonl`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_rlvr.cli import write_text
from grpo_rlvr.data import ROW_ID


def write_records(folder: Path, step: int, records: Sequence[dict], prompts: Mapping[str, object], per_prompt: int, inputs: str) -> dict:
    """Write one evaluation's records and return its summary.

    Args:
        records: as the reward adapter recorded them on all processes; a row that the sampler repeated to fill the last
            batch is cut back to `per_prompt` completions.
        prompts: prompt by row id.
        inputs: digest of the held-out rows and the rewards; two evaluations can be compared only if theirs are equal.

    Returns:
        `step`, `accuracy` (mean over prompts), `prompts`, `completions`, `unscored`.
    """
    kept: dict[str, list[dict]] = {}
    for record in records:
        group = kept.setdefault(record[ROW_ID], [])
        if len(group) < per_prompt:
            group.append(record)
    lines = [{"prompt": prompts.get(row), **record} for row in sorted(kept, key=_row_number) for record in kept[row]]
    header = {"schema": "grpo-rlvr/held-out/1", "step": step, "per_prompt": per_prompt, "inputs": inputs}
    write_text(record_path(folder, step), "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (header, *lines)))
    rates = _rates(lines)
    return {
        "step": step, "accuracy": _mean(rates.values()), "prompts": len(rates), "completions": len(lines),
        "unscored": sum(line["verdict"] is None for line in lines),
    }  # fmt: skip


def read_records(path: Path) -> list[dict]:
    """The records of one evaluation, without the header."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return lines[1:]


def read_header(path: Path) -> dict:
    """The first line of an evaluation's file."""
    with open(path, encoding="utf-8") as lines:
        return json.loads(lines.readline())


def describe(held_out: dict) -> str:
    """'held-out accuracy 35.2% -> 94.1% (+58.9 points, 95% interval +52.0 to +64.7, 256 prompts, paired)'."""
    if held_out["difference"] is None:
        return "held-out accuracy: no prompt was judged both before and after"
    low, high = held_out["ci95"]
    return (
        f"held-out accuracy {held_out['before']:.1%} -> {held_out['after']:.1%} ({100 * held_out['difference']:+.1f} points, "
        f"95% interval {100 * low:+.1f} to {100 * high:+.1f}, {held_out['prompts']} prompts, paired)"
    )


def record_path(folder: Path, step: int) -> Path:
    """Where the evaluation at `step` lies below the run's log folder."""
    return folder / "held_out" / f"step-{step:06d}.jsonl"


def compare(before: Sequence[dict], after: Sequence[dict]) -> dict:
    """Accuracy before and after over the prompts judged in both, with the 95% interval of the difference."""
    first, second = _rates(before), _rates(after)
    shared = [row for row in first if row in second]
    differences = [second[row] - first[row] for row in shared]
    low, high = paired_interval(differences)
    return {
        "before": _mean([first[r] for r in shared]), "after": _mean([second[r] for r in shared]), "difference": _mean(differences),
        "ci95": [low, high],
        "prompts": len(shared), "completions_per_prompt": len(after) / len(second) if second else 0,
        "method": "paired by prompt; adjusted Wald interval (Agresti and Min 2005)",
    }  # fmt: skip


def paired_interval(differences: Sequence[float], z: float = 1.959964) -> tuple[float | None, float | None]:
    """95% interval of a mean of paired differences in [-1, 1].

    A Wald interval after half an observation is added to each of the four cells of the paired table: n grows by 2, the sum of
    the differences stays, the sum of their squares grows by 1. Without that, prompts that all improve alike would give an
    interval of width zero. Source: Agresti and Min, "Simple improved confidence intervals for comparing matched
    proportions", Statistics in Medicine 24 (2005); used here for per-prompt means too.
    """
    if not differences:
        return None, None
    n = len(differences) + 2
    mean = sum(differences) / n
    variance = (sum(d * d for d in differences) + 1) / n - mean * mean
    half = z * math.sqrt(variance / n)
    return max(-1.0, mean - half), min(1.0, mean + half)


def _rates(records: Sequence[dict]) -> dict[str, float]:
    """Share of accepted completions by row; completions without a verdict are left out."""
    judged: dict[str, list[bool]] = {}
    for record in records:
        if record["verdict"] is not None:
            judged.setdefault(record[ROW_ID], []).append(bool(record["verdict"]))
    return {row: sum(verdicts) / len(verdicts) for row, verdicts in judged.items()}


def _mean(values) -> float | None:
    values = list(values)
    return sum(values) / len(values) if values else None


def _row_number(row: str) -> int:
    return int(row.rpartition(":")[2])
