"""Batches that came back before those in front of them, kept so that a kill loses no answer that a server has given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grpo_rlvr.inspection.jsonl import append_lines, read_lines, sha256
from grpo_rlvr.inspection.samples import COMPARED


class EarlyBatches:
    """`samples.early.jsonl` beside the samples: one batch a line. It belongs to samples of one header; others' lines are dropped.

    Attributes:
        kept: the rows of each batch of an interrupted run, by the place of its first.
    """

    def __init__(self, folder: Path, header: dict):
        self.path = folder / "samples.early.jsonl"
        self.header = sha256([header[k] for k in COMPARED])
        mine = [line.value for line in read_lines(self.path) if line.value is not None and line.value.get("header") == self.header]
        self.kept: dict[int, list[dict]] = {line["start"]: line["rows"] for line in mine}
        if not mine:
            self.clear()

    def keep(self, start: int, rows: Sequence[dict]) -> None:
        append_lines(self.path, [{"header": self.header, "start": start, "rows": list(rows)}])

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)
