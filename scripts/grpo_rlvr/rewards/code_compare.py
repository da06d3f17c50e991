"""Whether what a candidate returned or printed is what was expected. Typed, and no method of the candidate's is called:
both sides are exact built-in values."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from grpo_rlvr.sandbox.inside.values import Opaque

REL_TOL, ABS_TOL = 1e-6, 1e-9
_NUMBERS = (int, float, Fraction, Decimal)


def same_value(expected: Any, got: Any, *, literal: bool = False, rel_tol: float = REL_TOL, abs_tol: float = ABS_TOL) -> bool:
    """Whether two plain values are the same.

    Floats within a tolerance, whole numbers exactly (29.0 is 29), NaN only for NaN, order and length of sequences kept.

    Args:
        literal: `expected` is a Python literal: then Python's own types and its `True == 1` hold. Otherwise it came from JSON: there a bool
            is no number, a tuple is a list, and a whole number as a key is its text, since JSON has no other way to write them.
    """
    if isinstance(got, Opaque) or isinstance(expected, Opaque):
        return False
    if isinstance(expected, bool) or isinstance(got, bool):
        if type(expected) is type(got):
            return expected == got
        both_count = type(expected) in (*_NUMBERS, bool) and type(got) in (*_NUMBERS, bool)
        return literal and both_count and _same_number(expected, got, 0.0, 0.0)
    if type(expected) in _NUMBERS:
        return type(got) in _NUMBERS and _same_number(expected, got, rel_tol, abs_tol)
    if isinstance(expected, complex):
        if not isinstance(got, (complex, int, float)):
            return False
        got = complex(got)
        return _same_number(expected.real, got.real, rel_tol, abs_tol) and _same_number(expected.imag, got.imag, rel_tol, abs_tol)

    def inside(a: Any, b: Any) -> bool:
        return same_value(a, b, literal=literal, rel_tol=rel_tol, abs_tol=abs_tol)

    if isinstance(expected, (list, tuple)):
        fits = type(got) is type(expected) if literal else type(got) in (list, tuple)
        return fits and len(got) == len(expected) and all(map(inside, expected, got))
    if isinstance(expected, dict):
        if type(got) is not dict or len(got) != len(expected):
            return False
        if not literal:
            got = {_json_key(k): v for k, v in got.items()}
        return all(k in got and inside(v, got[k]) for k, v in expected.items())
    if isinstance(expected, (set, frozenset)):
        return isinstance(got, (set, frozenset)) and expected == got
    return type(got) is type(expected) and got == expected


def _json_key(key: Any) -> Any:
    # Python refuses to write longer whole numbers, and JSON texts of tests do not hold any.
    return str(key) if type(key) is int and key.bit_length() < 10_000 else key


def _same_number(expected: Any, got: Any, rel_tol: float, abs_tol: float) -> bool:
    try:
        if isinstance(expected, int):
            return expected == got
        if isinstance(expected, float) or isinstance(got, float):
            mine, theirs = float(expected), float(got)
            return math.isnan(mine) and math.isnan(theirs) or math.isclose(mine, theirs, rel_tol=rel_tol, abs_tol=abs_tol)
        if isinstance(expected, Decimal) and isinstance(got, Decimal) and expected.is_nan():
            return got.is_nan()
        # Exact, and never by way of Fraction(got): the digits of Decimal("1e999999999") fill no machine's memory in time.
        return expected == got
    except (OverflowError, ValueError, ArithmeticError, TypeError):
        return False


def same_output(expected: str, got: str) -> bool:
    """Whether two outputs have the same lines, but for white space at the ends of lines and empty lines at the end."""
    return _lines(expected) == _lines(got)


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines
