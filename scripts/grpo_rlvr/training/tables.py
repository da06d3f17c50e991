"""The completion tables of `grpo.log_completions`: where TRL writes them, and which are kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def table_path(output_dir: str, step: int) -> Path:
    """Where TRL writes the table of a step."""
    return Path(output_dir) / "completions" / f"completions_{step:05d}.parquet"


def surplus(tables: Sequence[Path], keep: int) -> list[Path]:
    """Which of the tables to delete, so that `keep` are left: the newest half of them and, thinned evenly, those before, the first included.

    Args:
        tables: in the order of their steps; those of an evaluation count apart, since they are few and of another kind.
    """
    gone = []
    for kind in (False, True):
        of_kind = [t for t in tables if t.name.startswith("eval_") == kind]
        if len(of_kind) <= keep:
            continue
        newest = keep // 2
        older, places = of_kind[: len(of_kind) - newest], keep - newest
        # `places` indices from first to last, evenly.
        stay = {round(i * (len(older) - 1) / max(1, places - 1)) for i in range(places)}
        gone += [t for i, t in enumerate(older) if i not in stay]
    return gone
