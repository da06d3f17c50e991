"""Names that a right answer must hold and that the prompt never says: functions to call or to write, keys of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.completions import prompt_text
from grpo_rlvr.data_files import numbers, row_number

MANY = 0.1  # a share of the rows from which it is more than a slip in a few
SHOWN = 4
FIX = (
    "say in the prompt (data.system_prompt, or the rows' system message) which there are, unless the model has been taught them; "
    "TRL shows the model no `tools` column"
)


def unnamed(function: Any, rows: Sequence[dict], golds: Mapping[int, Any]) -> list[tuple[str, str, str, list[int]]]:
    """(severity, message, fix, places of the rows), or nothing: from the reward's own `words_needed(gold)`, if it has one.

    Args:
        golds: as the reward has read them, by the place of their row.
    """
    needed = getattr(function, "words_needed", None)
    if not callable(needed):
        return []
    missing: dict[int, list[str]] = {}
    for i, gold in golds.items():
        if "prompt" in rows[i]:
            said = prompt_text(rows[i]["prompt"]).lower()
            if left := [word for word in needed(gold) if word.lower() not in said]:
                missing[i] = left
    if not missing:
        return []
    words = list(dict.fromkeys(word for left in missing.values() for word in left))
    named = ", ".join(f"{word[:40]!r}" for word in words[:SHOWN]) + (" ..." if len(words) > SHOWN else "")
    where = numbers(row_number(rows[i], i) for i in missing)
    message = f"{len(missing)} of {len(golds)} prompts do not name what a right answer must: {named}"
    if len(missing) >= MANY * len(golds):
        return [("warning", message, FIX, list(missing))]
    return [("note", f"{message}; {where}", FIX, list(missing))]
