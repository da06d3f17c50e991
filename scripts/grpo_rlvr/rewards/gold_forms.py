"""Right answers written down from the golds: the honest forms that a reward names for a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpo_rlvr.rewards.base import Reward
from grpo_rlvr.rewards.registry import BuiltReward

LIMIT = 2000
# A user's function may cost money or minutes a call.
USER_LIMIT = 32


def names_forms(function: Any) -> bool:
    """Whether a reward says how a right answer to a gold looks."""
    return callable(getattr(function, "honest_forms", None)) and bool(getattr(function, "correctness", True))


def spread(count: int, limit: int) -> list[int]:
    """Numbers of at most `limit` of `count` rows, evenly spread."""
    return list(range(count)) if count <= limit else [i * count // limit for i in range(limit)]


def golds_of(reward: BuiltReward, rows: Sequence[dict], numbers: Sequence[int]) -> dict[int, Any]:
    """The golds that can be read, by row, in the form that the reward's own methods want."""
    return {i: _read(reward.function, [rows[i].get(c) for c in reward.columns]) for i in numbers if reward.gold_problem(rows[i]) is None}


def forms_of(function: Any, row: dict, gold: Any) -> list[str]:
    """The honest forms of a row: those of its gold, or where only other columns hold a right answer, those of the row."""
    of_row = getattr(function, "honest_forms_of_row", None)
    return of_row(row, gold) if callable(of_row) else function.honest_forms(gold)


def rows_with_forms(reward: BuiltReward, rows: Sequence[dict], limit: int = LIMIT) -> dict[int, list[str]]:
    """Rows of which a right answer can be written down, each with its honest forms; empty for a reward that names none."""
    if not names_forms(reward.function):
        return {}
    golds = golds_of(reward, rows, spread(len(rows), limit))
    return {i: forms for i, gold in golds.items() if (forms := forms_of(reward.function, rows[i], gold))}


def in_common_forms(reward: BuiltReward, rows: Sequence[dict], limit: int = USER_LIMIT) -> dict[int, list[str]]:
    """The same for a user's required function that does not say how a right answer looks: the gold in a tag, in a box and bare."""
    function = reward.function
    if callable(getattr(function, "honest_forms", None)) or isinstance(function, Reward) or not (reward.required and reward.columns):
        return {}
    forms = {}
    for i in spread(len(rows), min(limit, USER_LIMIT)):
        gold = next((rows[i][c] for c in reward.columns if isinstance(rows[i].get(c), (str, int, float))), None)
        if gold is not None and reward.gold_problem(rows[i]) is None:
            forms[i] = [f"<answer>{gold}</answer>", f"\\boxed{{{gold}}}", f"{gold}"]
    return forms


def _read(function: Any, values: list[Any]) -> Any:
    """A user's reward without `read_gold` gets its one column as it is."""
    if callable(getattr(function, "read_gold", None)):
        return function.read_gold(*values)
    return values[0] if len(values) == 1 else tuple(values)
