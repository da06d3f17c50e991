"""Whether two golds of the data are one value, however it is written: 5 and 5.0, JSON with other spaces or another order of keys."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any


def same_gold(one: Any, other: Any) -> bool:
    """Equal as numbers, as JSON, or letter by letter. What LaTeX or words mean is left to the reward that reads them."""
    if type(one) is type(other) and one == other:
        return True
    return _read(one) == _read(other)


def _read(gold: Any) -> Any:
    if isinstance(gold, str):
        try:
            return _plain(json.loads(gold, parse_float=Decimal, parse_constant=_refuse))
        except (ValueError, ArithmeticError, RecursionError):
            return ("text", gold)
    try:
        return _plain(gold)
    except RecursionError:
        return gold


def _plain(value: Any) -> Any:
    """The value with its kind beside it: to Python True is 1, to JSON it is not."""
    if isinstance(value, bool) or value is None:
        return (type(value).__name__, value)
    if isinstance(value, float):
        return ("number", Decimal(repr(value)))
    if isinstance(value, (int, Decimal)):
        return ("number", value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return ("text", value)


def _refuse(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are no JSON
