"""Whether a number may have been rounded to another: `11.31` for 11.3137..., `6200` for 6234."""

from __future__ import annotations

import re

from grpo_rlvr.rewards.mathematics.values import Number

_DECIMAL = re.compile(r"[-+]?[\d, ]*(?:\.(?P<part>\d+))?")


def rounds_to(value: float, rounded: Number) -> bool:
    """Whether `value` is within one unit of the last decimal, half a unit of a whole number's last figure, a hundredth of any other form."""
    size = abs(float(rounded.value))
    match = _DECIMAL.fullmatch(rounded.written)
    if match is None:
        return abs(value - float(rounded.value)) <= size / 100
    if match["part"]:
        return abs(value - float(rounded.value)) <= 1.001 * 10 ** -len(match["part"])
    zeros = len(rounded.written) - len(rounded.written.rstrip("0"))
    return abs(value - float(rounded.value)) <= max(0.5, min(10**zeros / 2, size / 20))
