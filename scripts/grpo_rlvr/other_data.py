"""Data made for another way of training: named as that, before somebody makes a gold of the wrong column."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem, UserError

LOOKED_AT = 100  # rows whose values are looked at
NEEDS = "GRPO needs prompts with an answer that a program can check"
YES_NO = {True, False, "true", "false", "True", "False"}
# Columns beside a conversation in which no gold is to be expected.
ABOUT = {
    "prompt",
    "prompt_id",
    "id",
    "idx",
    "index",
    "uuid",
    "source",
    "dataset",
    "category",
    "split",
    "lang",
    "language",
    "tools",
    "system",
    "metadata",
}


@dataclass(frozen=True)
class OtherData:
    """A kind of data: what it is, the columns that make it so (none of which is a gold), and TRL's trainer for it."""

    what: str
    columns: tuple[str, ...]
    trainer: str


def other_data(rows: Sequence[Mapping]) -> OtherData | None:
    """What the rows are made for, if it is not this."""
    have = set().union(*(row.keys() for row in rows))
    if {"chosen", "rejected"} <= have:
        return OtherData("preference data", ("chosen", "rejected"), "DPOTrainer")
    if {"completion", "label"} <= have and _all(rows, "label", _is_yes_or_no):
        return OtherData("preference data", ("completion", "label"), "KTOTrainer")
    for name in ("messages", "conversations"):
        if name in have and have <= ABOUT | {name} and _all(rows, name, _is_answered):
            return OtherData("conversations to imitate", (name,), "SFTTrainer")
    return None


def other_data_problem(rows: Sequence[Mapping], golds: Mapping[str, str], where: str, name_it: str, meant: Collection[str] = ()) -> Problem | None:
    """Why the rows are refused: no column of golds is there, or one is named that is none.

    Args:
        golds: what the rewards read: our name of a column -> its name in the data. A reward that asks for one of the kind's own columns by
            that very name is taken at its word.
        name_it: how another column is named, such as "--answer-column NAME".
        meant: columns of the kind that somebody has made golds by hand, and that may be some.
    """
    kind = other_data(rows) if golds else None
    if kind is None:
        return None
    have = set().union(*(row.keys() for row in rows))
    misused = [theirs for ours, theirs in golds.items() if theirs in kind.columns and ours != theirs and theirs not in meant]
    if not misused and all(theirs in have for theirs in golds.values()):
        return None
    begin = f"'{misused[0]}' is no gold: this" if misused else "this"
    which = "is neither" if len(kind.columns) == 2 else "is another"
    fix = f"train on it with TRL's {kind.trainer}; for GRPO name a column of golds that {which}: {name_it}"
    return Problem(where, f"{begin} is {kind.what} ({', '.join(kind.columns)}); {NEEDS}", fix)


def refuse_other_data(config: Config, rows: Sequence[dict], place: str) -> None:
    """UserError for data of another way of training, unless there is a column of golds for all that the rewards read."""
    kind = other_data(rows)
    if kind is None:
        return
    from grpo_rlvr.rewards.registry import build_rewards

    try:
        golds = {name: config.data.columns.get(name, name) for reward in build_rewards(config) for name in reward.columns}
    except UserError:  # what is wrong with the rewards is said where they are built
        return
    wanting = next((ours for ours, theirs in golds.items() if ours != theirs or theirs not in rows[0]), "answer")
    problem = other_data_problem(rows, golds, place, f"data.columns: {{{wanting}: NAME}}", _meant(kind, config.data.columns, rows))
    if problem is not None:
        raise UserError("data", problem)


def _meant(kind: OtherData, columns: Mapping[str, str], rows: Sequence[Mapping]) -> set[str]:
    """Columns of the kind that `data.columns` names and that may hold golds: true or false for a text to judge, the right one of two choices.

    Messages are none, and a `completion` that is left under its name TRL would hide: such data is as it was made.
    """
    named = set(columns.values()) & set(kind.columns)
    if "completion" in kind.columns and "completion" not in named:
        return set()
    return {name for name in named if _all(rows, name, lambda value: isinstance(value, (str, int, float)))}


def preferred_gold(config: Config, rows: Sequence[Mapping]) -> str:
    """What to say where the preferred of two replies is taken for the right answer, because `data.columns` says so; empty if it is not."""
    columns, have = config.data.columns, set().union(*(row.keys() for row in rows))
    for theirs, other in (("chosen", "rejected"), ("rejected", "chosen")):
        ours = next((ours for ours, name in columns.items() if name == theirs != ours), None)
        if ours is not None and {ours, _ours(columns, other)} <= have:
            return f"data.columns takes '{theirs}' as the gold '{ours}', beside '{other}': the better of two replies need not be the only right one"
    return ""


def _ours(columns: Mapping[str, str], theirs: str) -> str:
    """Our name of a column of the data."""
    return next((ours for ours, name in columns.items() if name == theirs), theirs)


def _all(rows: Sequence[Mapping], name: str, is_so: Any) -> bool:
    values = [row[name] for row in rows[:LOOKED_AT] if row.get(name) is not None]
    return bool(values) and all(is_so(value) for value in values)


def _is_yes_or_no(value: Any) -> bool:
    return isinstance(value, (bool, int, str)) and value in YES_NO


def _is_answered(value: Any) -> bool:
    """Whether a conversation ends with a model's turn."""
    last = value[-1] if isinstance(value, list) and value else None
    return isinstance(last, Mapping) and (last.get("role") or last.get("from")) in ("assistant", "gpt", "model")
