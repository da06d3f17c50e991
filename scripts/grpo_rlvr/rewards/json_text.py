"""The one JSON value that a completion is, and when two JSON values are equal."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any

from grpo_rlvr.completions import ANSWER_CLOSE, ANSWER_OPEN, behind_reasoning, strip_special_tokens
from grpo_rlvr.rewards.strict_json import NotJson, parse_strict

FENCES = ("forbid", "strip")
# From here on Python's hash of a number comes round again: its multiples would all be in one place of a table. Such floats are whole.
HASHED = sys.hash_info.modulus


def json_value(text: str, fence: str) -> tuple[Any] | None:
    """The strict JSON value that the text is, or is behind the reasoning that it begins with; in a tuple, since null is a value too.

    A value that fills one `<answer>` block is unwrapped, with `fence: strip` also one in an outer code fence.
    """
    # The whole text first: a JSON string may hold a closing tag.
    value = _parsed(text, fence)
    if value is None:
        rest = strip_special_tokens(behind_reasoning(text))
        value = None if rest == text else _parsed(rest, fence)
    return value


def _parsed(text: str, fence: str) -> tuple[Any] | None:
    if text.startswith(ANSWER_OPEN) and text.endswith(ANSWER_CLOSE):
        text = strip_special_tokens(text[len(ANSWER_OPEN) : -len(ANSWER_CLOSE)])
    if fence == "strip":
        text = strip_fence(text)
    try:
        return (parse_strict(text),)
    except NotJson:
        return None


def strip_fence(text: str) -> str:
    """The body of one outer Markdown code fence (with no language, or json), else the text as it is."""
    if not (text.startswith("```") and text.endswith("```")) or len(text) < 6:
        return text
    newline = text.find("\n")
    if newline < 0 or text[3:newline].strip().lower() not in ("", "json"):
        return text
    body = text[newline + 1 : -3]
    return text if "```" in body else body


def typed_key(value: Any, any_order: bool = False) -> Any:
    """A hashable form that is equal for equal JSON values: 1 is 1.0, true is not 1, key order does not matter.

    Args:
        any_order: nor does the order of lists; how often each item is in them does.

    Raises ValueError for what JSON cannot hold.
    """
    kind = type(value)
    if kind is str or value is None:  # the usual leaves first
        return kind, value
    if kind is int:
        return "number", value if -HASHED < value < HASHED else hex(value)
    if isinstance(value, (bool, str)):
        return bool if isinstance(value, bool) else str, value
    if isinstance(value, (int, float)):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not JSON")
        return ("number", value) if -HASHED < value < HASHED else ("number", hex(int(value)))
    if isinstance(value, (list, tuple)):
        items = [typed_key(v, any_order) for v in value]
        return "list", frozenset(Counter(items).items()) if any_order else tuple(items)
    if isinstance(value, dict):
        if not all(isinstance(k, str) for k in value):
            raise ValueError("an object has a key that is not text")
        return "object", frozenset((k, typed_key(v, any_order)) for k, v in value.items())
    raise ValueError(f"a {type(value).__name__} is not JSON")


def keys_of(value: Any) -> list[str]:
    """The keys of all objects in a JSON value, each once."""
    found, left = {}, [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            found |= dict.fromkeys(item)
            left += item.values()
        elif isinstance(item, (list, tuple)):
            left += item
    return list(found)
