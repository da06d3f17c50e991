"""What the gold columns say: which of them decide, the answers in them, and what kind of task they make."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grpo_rlvr.completions import answer_span
from grpo_rlvr.inspection.equality import values

NOT_GOLD = ("row_id", "prompt")
NOT_ANSWERS = ("output_schema", "tests")  # they say how to check, not what is right
KINDS = ("code", "calls", "schema", "choice", "number", "text", "none")
_LETTER = re.compile(r"[\s(\[]*[A-Za-z][\s)\].:]*")


def gold_names(rewards: Sequence, samples: Sequence[Mapping]) -> list[str]:
    """The columns that the deciding rewards read; for rewards that read none, `answer` if there is one."""
    names = sorted({c for r in rewards if r.required for c in r.columns})
    return names or [c for c in ("answer",) if any(c in s["columns"] for s in samples)]


def kind_of(rewards: Sequence, samples: Sequence[Mapping]) -> str:
    """One of `KINDS`: what earns credit, by the columns that the deciding rewards read and what stands in them."""
    columns = {c for r in rewards if r.required for c in r.columns}
    if "tests" in columns:
        return "code"
    if "expected_calls" in columns:
        return "calls"
    if columns == {"output_schema"}:
        return "schema"
    answers = [text for s in samples for text in answer_texts(s["columns"], gold_names(rewards, samples))]
    if not answers:
        return "none"
    if all(_LETTER.fullmatch(a) for a in answers):
        return "choice"
    return "number" if all(values(a) for a in answers) else "text"


def all_golds(columns: Mapping[str, Any]) -> list[str]:
    """Every value in any column, as text: any of them may be the truth, whether the reward reads it or not."""
    return [part for text in texts(columns, [name for name in columns if name not in NOT_GOLD]) for part in _parts(text)]


def answers_of(columns: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The answers in the named columns, each way in which they may stand in a completion."""
    return [part for text in answer_texts(columns, names) for part in _parts(text)]


def answer_texts(columns: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return texts(columns, [name for name in names if name not in NOT_ANSWERS])


def texts(columns: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The scalars among the named columns, as text; of lists and objects (also as JSON text) each value."""
    found = [item for name in names if name in columns for item in _items(columns[name])]
    return [str(v) for v in found if isinstance(v, str | int | float) and not isinstance(v, bool)]


def last_answer(gold: str) -> str:
    """The final answer of a worked solution, or the gold itself."""
    span = answer_span(gold)
    return gold[slice(*span)] if span else gold


def json_value(value: Any) -> Any:
    """The value of a column; of an object or array as JSON text what it holds."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def says_nothing(columns: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether the gold is an empty list or object: there, doing nothing is right."""
    return any(columns.get(name) in ([], {}) or (isinstance(columns.get(name), str) and columns[name].strip() in ("[]", "{}")) for name in names)


def _parts(gold: str) -> list[str]:
    """A gold, the answer at the end of a worked solution, and each of "15 or 16"."""
    return list(dict.fromkeys([gold, last_answer(gold), *re.split(r"\s+or\s+|\s*[|;]\s*", gold)]))


def _items(value: Any) -> list:
    inside = value
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            inside = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
        if not isinstance(inside, list | dict):
            return [value]
    if isinstance(inside, list | tuple | dict):
        return [*([value] if isinstance(value, str) else []), *_leaves(inside)]
    return [value]


def _leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, list | tuple | dict) and depth < 20:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item, depth + 1)
    else:
        yield value
