"""From a normalised text to its value: a recursive reading, outermost structure first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from grpo_rlvr.rewards.mathematics.exact_numbers import exact
from grpo_rlvr.rewards.mathematics.splitting import enclosed, split_relation, split_separators, split_top
from grpo_rlvr.rewards.mathematics.units import canonical, split_unit
from grpo_rlvr.rewards.mathematics.values import (
    Assign,
    Based,
    Chain,
    Formula,
    Group,
    Items,
    Number,
    Quantity,
    Range,
    Ratio,
    Relation,
    Text,
    Union,
    Value,
    is_one_constant,
)


@dataclass(frozen=True)
class Reading:
    """How ambiguous spellings are read: see `make_math_reward`."""

    percent: str = "fraction"
    decimal_comma: bool = False


_NAME = re.compile(
    r"(?:[A-Za-z]|\\[A-Za-z]+|[A-Z]{2,4}|\\text\{[^{}]*\}|[A-Za-z][a-z]{2,}(?: [a-z]{2,})*)(?:_(?:\{\w+\}|\w))?'*(?:\^\{-1\})?(?:\([\w,;. -]*\))?"
    r"|\|[A-Z]{2}\||m?\\angle ?\{?[A-Z]{1,3}\}?|\\(?:overline|widehat|hat|vec) ?\{[A-Za-z]{1,3}\}|\([a-z](?:, ?[a-z])+\)"
)
_BASED = re.compile(r"\(?([0-9][0-9A-Fa-f]*|[A-F][0-9A-F]*)\)?_(?:\{(?:\\text\{)?(\d{1,2})\}{1,2}|(\d{1,2}))")
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
_CLOCK = re.compile(r"(\d{1,2}(?::\d{2}){1,2}) ?(?:\\text ?\{)? ?([apAP])\.? ?[mM]\.?\}?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}/\d{4}")
_SCALES = ("one", "thousand", "million", "billion", "trillion")
_SCALED = re.compile(r"(?P<number>[-+\d.,/ ]*\d) ?(?:\\text ?\{ ?)?(?P<scale>thousand|million|billion|trillion)s?(?P<unit>[ }][^{}]*\}?)?")
_CONSTANTS = re.compile(r"\\(?:pi|infty|sqrt|frac|cdot|times|e|ln|log)(?![A-Za-z])|(?<![A-Za-z\\])e(?![A-Za-z])")
_PLAIN_WORDS = re.compile(r"[^\W\d_]+(?:[ '.,\-][^\W\d_]+)*[.!]?")
_NAMED_SETS: dict[str, Value] = {
    **dict.fromkeys(("all real numbers", "all reals", "all real x", "the real numbers", "all real values"), Formula("\\mathbb{R}")),
    **dict.fromkeys(("no solution", "no solutions", "no real solution", "no real solutions", "empty set", "the empty set"), Items((), braces=True)),
}
_MAX_DEPTH = 40


def read(text: str, how: Reading = Reading(), depth: int = 0) -> Value:
    """The value of a normalised text. Raises ValueError if nothing is there or it is nested beyond reason."""
    text = text.strip()
    if not text or depth > _MAX_DEPTH:
        raise ValueError("no value" if not text else "nested too deeply")
    return _scalar(text, how, depth) or _composite(text, how, depth) or Formula(text)


def _scalar(text: str, how: Reading, depth: int) -> Value | None:
    number = exact(text, how.decimal_comma)
    if number is not None:
        return Number(number, text)
    if special := _clock_or_date(text) or _scaled(text, how):
        return special
    for sign in ("%", " percent", " per cent", "\\text{percent}", "\\text{per cent}"):
        if text.endswith(sign) and not _several(text[: -len(sign)], how):
            inner = read(text[: -len(sign)], how, depth + 1)
            if how.percent == "literal":
                return inner
            return (
                Number(inner.value / 100, f"{inner.written}%")
                if isinstance(inner, Number)
                else Formula(f"\\frac{{{text[: -len(sign)].strip()}}}{{100}}")
            )
    if (match := _BASED.fullmatch(text)) and 2 <= int(match[2] or match[3]) <= 36:
        base = int(match[2] or match[3])
        if all(int(d, 36) < base for d in match[1]):
            return Based(match[1].lstrip("0").upper() or "0", base)
    words = as_words(text)
    if words is not None and not _several(text, how):
        return _NAMED_SETS.get(words) or Text(words)
    if (parts := split_unit(text)) and parts[0] and not _several(parts[0], how):
        return Quantity(read(parts[0], how, depth + 1), parts[1])
    return None


def _clock_or_date(text: str) -> Value | None:
    """ "3:15 PM" is a time and 2024-01-31 a date, not a ratio and a difference."""
    if match := _CLOCK.fullmatch(text):
        return Quantity(Ratio(tuple(Number(Fraction(int(part))) for part in match[1].split(":"))), match[2].lower() + "m")
    if match := _DATE.fullmatch(text):
        return Text(" ".join(str(int(part)) for part in re.split("[-/]", text)))
    return None


def _scaled(text: str, how: Reading) -> Value | None:
    """ "3.5 million dollars" """
    match = _SCALED.fullmatch(text)
    number = exact(match["number"], how.decimal_comma) if match else None
    if number is None:
        return None
    value = Number(number * 10 ** (3 * _SCALES.index(match["scale"])), match["number"])
    unit = (match["unit"] or "").strip("{} ").removeprefix("\\text{").strip()
    return Quantity(value, canonical(unit)) if unit else value


def _several(text: str, how: Reading) -> bool:
    """Whether this is a list or a relation; the comma of 1,234 makes none."""
    if exact(text, how.decimal_comma) is not None:
        return False
    return len(split_separators(text)[0]) > 1 or len(split_relation(text)[0]) > 1


def as_words(text: str) -> str | None:
    """The words of a text answer in one spelling, or None if it is a formula. Two letters are still a product, but for "no"."""
    plain = re.sub(r"\\text ?\{([^{}\\]*)\}", r" \1 ", text)
    plain = " ".join(plain.split())
    if len(plain) > 2 and plain[0] == "(" and plain[-1] == ")":
        plain = plain[1:-1]
    if not _PLAIN_WORDS.fullmatch(plain) or (len(plain) < 3 and "\\text" not in text and plain.lower() != "no"):
        return None
    if any(len(w) > 1 for w in re.split(r"[ '.,\-]", plain)):
        return plain.rstrip(".!").casefold()
    return None


def _composite(text: str, how: Reading, depth: int) -> Value | None:
    if text in ("\\emptyset", "\\{\\}"):
        return Items((), braces=True)
    if how.decimal_comma and ";" in text:  # then the semicolon separates, and no comma does
        text = _DECIMAL_COMMA.sub(".", text)
    parts, words = split_separators(text)
    if len(parts) > 1:
        return _joined([read(p, how, depth + 1) for p in parts], words)
    if "\\pm" in text or "\\mp" in text:
        plus, minus = (text.replace("\\pm", a).replace("\\mp", b) for a, b in (("+", "-"), ("-", "+")))
        first, second = read(plus.lstrip("+"), how, depth + 1), read(minus.lstrip("+"), how, depth + 1)
        if isinstance(first, Assign) and isinstance(second, Assign):
            return Assign(first.name, Items((first.value, second.value)))
        return Items((first, second))
    sides, operators = split_relation(text)
    if len(sides) > 1:
        return _related(sides, operators, how, depth)
    united = split_top(text, "\\cup")
    if len(united) > 1:
        return Union(tuple(read(p, how, depth + 1) for p in united))
    if enclosed(text, "\\{", "\\}"):
        return _set(text[2:-2], how, depth)
    if enclosed(text, "{", "}"):  # a set in plain text, or braces that only group
        several = len(split_separators(text[1:-1])[0]) > 1 or len(split_top(text[1:-1], "|")) == 2
        return _set(text[1:-1], how, depth) if several else read(text[1:-1], how, depth + 1)
    if text[:1] in "([]" and text[-1:] in ")][" and enclosed(text, text[0], text[-1]):
        items = split_separators(text[1:-1])[0]
        if len(items) > 1:
            left, right = {"]": "("}.get(text[0], text[0]), {"[": ")"}.get(text[-1], text[-1])
            return Group(left, right, tuple(read(p, how, depth + 1) for p in items))
        if text[0] == "(" and text[-1] == ")":
            return read(text[1:-1], how, depth + 1)
    if enclosed(text, "\\langle", "\\rangle"):
        return Group("<", ">", tuple(read(p, how, depth + 1) for p in split_separators(text[7:-7])[0]))
    ratio = split_top(text, ":")
    if len(ratio) > 1 and all(ratio):
        return Ratio(tuple(read(p, how, depth + 1) for p in ratio))
    return None


def _set(inner: str, how: Reading, depth: int) -> Value | None:
    for bar in ("|", ":"):
        condition = split_top(inner, bar)
        if len(condition) == 2 and condition[1]:
            value = read(condition[1], how, depth + 1)
            return value if isinstance(value, (Range, Union)) else None
    return Items(tuple(read(p, how, depth + 1) for p in split_separators(inner)[0] if p), braces=True)


def _joined(values: list[Value], words: set[str]) -> Value:
    """Values with commas or and/or between them: one name for all, ranges that are one range, or a list."""
    values = [item for value in values for item in (value.items if isinstance(value, Items) and not value.braces else (value,))]
    if all(isinstance(v, Range) for v in values) and len({v.name for v in values}) == 1:
        if "or" in words:
            return Union(tuple(values))
        if len(values) == 2:
            a, b = values if values[0].low is not None else values[::-1]
            if a.high is None and b.low is None and a.low is not None:
                return Range(a.name, a.low, a.low_closed, b.high, b.high_closed)
    first, rest = values[0], values[1:]
    if isinstance(first, Assign) and not isinstance(first.value, Items):
        if all(isinstance(v, Assign) and v.name == first.name for v in rest):
            return Assign(first.name, Items((first.value, *(v.value for v in rest))))
        if not any(isinstance(v, (Assign, Relation, Range, Union)) for v in rest):
            return Assign(first.name, Items((first.value, *rest)))
    return Items(tuple(values))


def _related(sides: list[str], operators: list[str], how: Reading, depth: int) -> Value | None:
    if not all(sides):
        return None
    names = set(operators)
    if names <= {"=", "~", "in"}:
        return _equated(sides, operators, how, depth)
    if names <= {">", ">="}:
        sides, operators = sides[::-1], [o.replace(">", "<") for o in operators[::-1]]
    elif not names <= {"<", "<="}:
        if operators == ["!="] and _NAME.fullmatch(sides[0]) and not re.search(r"[A-Za-z]", _CONSTANTS.sub("", sides[1])):
            bound = read(sides[1], how, depth + 1)
            return Union((Range(sides[0], None, False, bound, False), Range(sides[0], bound, False, None, False)))
        if operators == ["!="]:
            return Relation(read(sides[0], how, depth + 1), "!=", read(sides[1], how, depth + 1))
        return None
    variable = [bool(_NAME.fullmatch(s)) and not _CONSTANTS.fullmatch(s) for s in sides]
    constant = [not re.search(r"[A-Za-z]", _CONSTANTS.sub("", s)) for s in sides]
    closed = [o == "<=" for o in operators]
    if len(sides) == 3 and variable[1] and constant[0] and constant[2]:
        return Range(sides[1], read(sides[0], how, depth + 1), closed[0], read(sides[2], how, depth + 1), closed[1])
    if len(sides) == 2 and variable[0] and constant[1]:
        return Range(sides[0], None, False, read(sides[1], how, depth + 1), closed[0])
    if len(sides) == 2 and variable[1] and constant[0]:
        return Range(sides[1], read(sides[0], how, depth + 1), closed[0], None, False)
    return Relation(read(sides[0], how, depth + 1), operators[0], read(sides[1], how, depth + 1)) if len(sides) == 2 else None


def _equated(sides: list[str], operators: list[str], how: Reading, depth: int) -> Value | None:
    """Sides with = or \\approx between them: a name and its value, a chain of constants, an equation."""
    left, right = sides[0], sides[-1]
    named = _NAME.fullmatch(left)
    if not named and len(sides) == 2 and _NAME.fullmatch(right) and operators != ["in"]:
        return Assign(right, read(left, how, depth + 1))
    # What follows \approx is a rounding of what stands before it: the exact part is the answer.
    exact_sides = operators.index("~") + 1 if "~" in operators else len(sides)
    if named:
        if exact_sides == 1:
            return Assign(left, read(right, how, depth + 1))
        value = read(sides[exact_sides - 1], how, depth + 1)
        rounded = tuple(read(side, how, depth + 1) for side in sides[exact_sides:])
        return Assign(left, Chain((value,), rounded) if rounded and is_one_constant(value) else value)
    values = [read(side, how, depth + 1) for side in sides]
    if "in" not in operators and all(is_one_constant(value.value if isinstance(value, Quantity) else value) for value in values):
        return Chain(tuple(values[:exact_sides]), tuple(values[exact_sides:]))
    return Relation(values[0], "=", values[1]) if len(sides) == 2 and operators != ["in"] else None
