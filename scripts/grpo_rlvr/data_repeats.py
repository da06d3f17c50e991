"""Rows that ask what an earlier row asked: counted twice in training, and where the golds differ, one of them is wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.data_files import row_number
from grpo_rlvr.gold_values import same_gold

SHOWN = 5  # pairs named in a message


@dataclass(frozen=True)
class Repeats:
    """How many rows repeat an earlier prompt, and the pairs (first row, repeating row), by position; `two_golds` are those that differ."""

    count: int
    pairs: list[tuple[int, int]]
    two_golds: list[tuple[int, int]]


def find_repeats(rows: Sequence[dict], columns: Collection[str]) -> Repeats:
    """One pass with a dict of hashes: a million text prompts take about a second, chat prompts five.

    Args:
        columns: the gold columns, those that rewards read. What else a row has, an id say, may differ.
    """
    first: dict[Any, int] = {}
    pairs, two_golds = [], []
    for i, row in enumerate(rows):
        before = first.setdefault(prompt_key(row["prompt"]), i)
        if before != i:
            pairs.append((before, i))
            if not all(same_gold(rows[before].get(c), row.get(c)) for c in columns):
                two_golds.append((before, i))
    return Repeats(len(pairs), pairs, two_golds)


def repeat_findings(rows: Sequence[dict], columns: Collection[str], place: str) -> list[dict[str, Any]]:
    """What to say of them, gravest first: `check` (two_golds, repeated_prompts), `severity` (warning, note), `message`, `fix`, `rows`."""
    found, out = find_repeats(rows, columns), []
    if golds := found.two_golds:
        what = f"{len(golds)} row{'s' if len(golds) > 1 else ''} of {place} repeat{'' if len(golds) > 1 else 's'} an earlier prompt with another gold"
        message = f"{what}: {_named(golds, rows)}; unless both can be right, one of each pair is an error, and what is learned there is noise"
        out.append(_finding("two_golds", "warning", message, "correct or remove one of each pair", golds, rows))
    if found.count:
        verb = "repeat" if found.count > 1 else "repeats"
        message = (
            f"{found.count} of {len(rows)} rows of {place} {verb} an earlier prompt: {_named(found.pairs, rows)}; such a prompt counts several times"
        )
        out.append(_finding("repeated_prompts", "note", message, "remove the repetitions, unless the weight is meant", found.pairs, rows))
    return out


def prompt_key(prompt: str | list) -> str | bytes:
    """A text is its own key; of messages a hash, so that a million of them are not held as text once more."""
    if isinstance(prompt, str):
        return prompt
    return hashlib.blake2b(json.dumps(prompt, sort_keys=True, default=str).encode(), digest_size=16).digest()


def _named(pairs: Sequence[tuple[int, int]], rows: Sequence[dict]) -> str:
    shown = ", ".join(" and ".join(str(row_number(rows[i], i)) for i in pair) for pair in pairs[:SHOWN])
    return f"{shown}{f' and {len(pairs) - SHOWN} more' if len(pairs) > SHOWN else ''} (from 0)"


def _finding(check: str, severity: str, message: str, fix: str, pairs: Sequence[tuple[int, int]], rows: Sequence[dict]) -> dict[str, Any]:
    numbers = sorted({row_number(rows[i], i) for pair in pairs[:1000] for i in pair})
    return {"check": check, "severity": severity, "message": message, "fix": fix, "rows": numbers}
