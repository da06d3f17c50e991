"""Rows whose tests are so few that wrong programs pass them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.data_files import numbers, row_number

FEW = 3  # a row with fewer is noted
FIX = "add tests to these rows, with inputs that a careless program gets wrong; inspect_rewards.py run shows passing programs to read"


def few_tests(function: Any, rows: Sequence[dict], golds: Mapping[int, Any]) -> list[tuple[str, str, list[int]]]:
    """(message, fix, places of the rows), or nothing: from the reward's own `test_count(gold)`, if it has one.

    Args:
        golds: as the reward has read them, by the place of their row.
    """
    count = getattr(function, "test_count", None)
    counts = {i: count(gold) for i, gold in golds.items()} if callable(count) else {}
    few = [i for i, n in counts.items() if n is not None and n < FEW]
    if not few:
        return []
    where = numbers(row_number(rows[i], i) for i in few)
    return [(f"{len(few)} of {len(golds)} rows have fewer than {FEW} tests ({where}): wrong programs pass so few", FIX, few)]
