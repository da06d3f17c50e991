"""JSON as the standard has it: no NaN, no infinities, no duplicate keys, one value and nothing after it."""

from __future__ import annotations

import json
import math
import re
from typing import Any

WHITE_SPACE = " \t\r\n"
# Longer integers are refused by Python's own conversion and by every JSON reader that a user is likely to have.
MAX_DIGITS = 4300


class NotJson(ValueError):
    """The text is not one strict JSON value."""


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotJson(f"the number {text[:20]} overflows")
    return value


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise NotJson(f"an integer of {len(text)} digits")
    return int(text)


def _constant(text: str) -> Any:
    raise NotJson(f"{text} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise NotJson("a key stands twice")
    return out


_DECODER = json.JSONDecoder(parse_float=_number, parse_int=_integer, parse_constant=_constant, object_pairs_hook=_object)
# Of a short text without exponents no number is too long and none overflows: the hooks for numbers would only cost time.
_SHORT_DECODER = json.JSONDecoder(parse_constant=_constant, object_pairs_hook=_object)
_SHORT, _EXPONENT = 300, re.compile(r"\d[eE]")


def _decoder(text: str) -> json.JSONDecoder:
    return _SHORT_DECODER if len(text) <= _SHORT and _EXPONENT.search(text) is None else _DECODER


def read_json(value: Any, what: str, absent: str = "", otherwise: str = "") -> Any:
    """A gold that is JSON or its text. ValueError for null and for other text; `what` begins the message ("the schema is")."""
    if value is None:
        raise ValueError(f"{what} missing (null){absent}")
    if not isinstance(value, str):
        return value
    try:
        return parse_strict(value)
    except NotJson as exc:
        raise ValueError(f"{what} text that is not JSON: {exc}{otherwise}") from None


def parse_strict(text: str) -> Any:
    """The value of `text`. Raises NotJson for everything else, too deep nesting included."""
    try:
        text = text.strip(WHITE_SPACE)
        return _decoder(text).decode(text)
    except NotJson:
        raise
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except ValueError as exc:
        raise NotJson(str(exc)) from None


def decode_strict(text: str, start: int) -> tuple[Any, int]:
    """The value that begins exactly at `start`, and the index after it. ValueError if there is none, RecursionError if too deep."""
    return _decoder(text).raw_decode(text, start)
