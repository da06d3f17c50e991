"""Numbers read exactly: integers, decimals, fractions, mixed numbers, separators, scientific notation."""

from __future__ import annotations

import re
from fractions import Fraction

MAX_DIGITS = 2000
MAX_EXPONENT = 2000

_GROUPED = r"[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+|[1-9]\d{0,2}(?:'\d{3})+|\d+"
_MARKS = str.maketrans("", "", ", '")
_DECIMAL = re.compile(rf"(?P<whole>{_GROUPED})?(?:\.(?P<part>\d*)(?:\\overline ?\{{(?P<repeat>\d+)\}})?)?")
_COMMA_DECIMAL = re.compile(r"(?P<whole>[1-9]\d{0,2}(?:\.\d{3})+|[1-9]\d{0,2}(?: \d{3})+|\d+),(?P<part>\d+)")
_SCIENTIFIC = re.compile(r"(?P<factor>[^eE\\*^]+?)(?: ?(?:\\times|\\cdot|\*) ?10 ?\^ ?\{(?P<power>[-+]? ?\d+)\}|[eE](?P<e>[-+]?\d+))")
_POWER_OF_TEN = re.compile(r"10 ?\^ ?\{([-+]? ?\d+)\}")
_FRACTION = re.compile(r"\\frac ?\{(?P<top>[^{}]*)\} ?\{(?P<bottom>[^{}]*)\}|\{?(?P<a>[\d., ]+)\}? ?/ ?\{?(?P<b>[-+]?[\d., ]+)\}?")
_MIXED = re.compile(
    r"(?P<whole>\d+) ?(?P<rest>\\frac ?\{\d+\} ?\{\d+\})"
    r"|(?P<plain>\d+) (?P<a>\d+) ?/ ?(?P<b>\d+)|(?P<joined>\d+) and (?P<c>\d+) ?/ ?(?P<d>\d+)"
)


def exact(text: str, decimal_comma: bool = False) -> Fraction | None:
    """The number that a normalised text is, or None if it is not a plain number.

    Commas and spaces separate thousands only where every group has three digits. With `decimal_comma` one comma is the
    decimal mark ("2,75", "1.234,5"); a point alone stays one too.
    """
    text = text.strip()
    if not text or len(text) > MAX_DIGITS or not any(c in "0123456789" for c in text) or not text.isascii():
        return None
    while len(text) > 1 and text[0] == "{" and text[-1] == "}" and "{" not in text[1:-1]:
        text = text[1:-1].strip()
    sign = 1
    if text[:1] in ("-", "+"):
        sign, text = (-1 if text[0] == "-" else 1), text[1:].lstrip()
    try:
        value = _unsigned(text, decimal_comma)
    except (ZeroDivisionError, ValueError):
        return None
    return None if value is None else sign * value


def _unsigned(text: str, decimal_comma: bool) -> Fraction | None:
    value = _decimal(text, decimal_comma)
    if value is not None:
        return value
    if match := _MIXED.fullmatch(text):
        whole = match["whole"] or match["plain"] or match["joined"]
        rest = _unsigned(match["rest"], decimal_comma) if match["rest"] else Fraction(int(match["a"] or match["c"]), int(match["b"] or match["d"]))
        # 4 1/4 is a mixed number; 4 5/4 is nobody's way to write one.
        return int(whole) + rest if rest is not None and rest < 1 else None
    if match := _FRACTION.fullmatch(text):
        top = exact(match["top"] if match["top"] is not None else match["a"], decimal_comma)
        bottom = exact(match["bottom"] if match["bottom"] is not None else match["b"], decimal_comma)
        return None if top is None or bottom is None else top / bottom
    if match := _POWER_OF_TEN.fullmatch(text):
        return _ten_to(match[1])
    if match := _SCIENTIFIC.fullmatch(text):
        factor, power = exact(match["factor"], decimal_comma), _ten_to(match["power"] or match["e"])
        return None if factor is None or power is None else factor * power
    return None


def _ten_to(power: str) -> Fraction | None:
    exponent = int(power.replace(" ", ""))
    return Fraction(10) ** exponent if abs(exponent) <= MAX_EXPONENT else None


def _decimal(text: str, decimal_comma: bool) -> Fraction | None:
    match = _COMMA_DECIMAL.fullmatch(text) if decimal_comma else None
    if match:
        return Fraction(f"{match['whole'].replace('.', '').replace(' ', '')}.{match['part']}")
    match = _DECIMAL.fullmatch(text)
    if not match or not (match["whole"] or match["part"] or match["repeat"]):
        return None
    whole = (match["whole"] or "0").translate(_MARKS)
    part, repeat = match["part"] or "", match["repeat"] or ""
    value = Fraction(f"{whole}.{part}") if part else Fraction(int(whole))
    if repeat:
        value += Fraction(int(repeat), 10 ** len(part) * (10 ** len(repeat) - 1))
    return value
