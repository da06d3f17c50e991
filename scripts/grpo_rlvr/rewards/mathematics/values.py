"""What kind of thing an answer is: number, formula, text, quantity, tuple, list, set, range, union, assignment, relation, chain.

Kinds are told apart so that no comparison can pass by reading a pair as a set or an equation as its right-hand side.
Only the leaves (`Formula`) need algebra.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

from grpo_rlvr.rewards.mathematics.symbols import GREEK

_LETTER = re.compile(r"[A-Za-z]")
_VARIABLE = re.compile(rf"\\(?:{'|'.join(name for name in GREEK if name != 'pi')}|epsilon|gamma|tau|varphi)(?![A-Za-z])")
_NAMED_CONSTANT = re.compile(r"\\[A-Za-z]+|(?<![A-Za-z])[ei](?![A-Za-z])")


@dataclass(frozen=True)
class Number:
    """A number, and how it was written, which is no part of what it is."""

    value: Fraction
    written: str = field(default="", compare=False)


@dataclass(frozen=True)
class Formula:
    latex: str


@dataclass(frozen=True)
class Text:
    words: str


@dataclass(frozen=True)
class Based:
    digits: str
    base: int


@dataclass(frozen=True)
class Quantity:
    value: Value
    unit: str


@dataclass(frozen=True)
class Group:
    """A tuple or an interval: the order and the brackets count."""

    left: str
    right: str
    items: tuple[Value, ...]


@dataclass(frozen=True)
class Items:
    """Several values without an order; `braces` if they were written as a set, where repeats do not count."""

    items: tuple[Value, ...]
    braces: bool = False


@dataclass(frozen=True)
class Range:
    """The numbers between two bounds (None: no bound), written as an inequality in `name`."""

    name: str
    low: Value | None
    low_closed: bool
    high: Value | None
    high_closed: bool


@dataclass(frozen=True)
class Union:
    parts: tuple[Value, ...]


@dataclass(frozen=True)
class Assign:
    """`x = 5`, `f(x) = x^2`, `x \\in (1, 2)`: a name and what it stands for."""

    name: str
    value: Value


@dataclass(frozen=True)
class Relation:
    """An equation or inequality between two formulas; `operator` is one of =, <, <=, !=, others are turned around."""

    left: Value
    operator: str
    right: Value


@dataclass(frozen=True)
class Chain:
    r"""`\sqrt{8} = 2\sqrt{2} \approx 2.83`: constants that are said to be equal, the last of which is the answer, and roundings of it."""

    parts: tuple[Value, ...]
    rounded: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Ratio:
    items: tuple[Value, ...]


Value = Number | Formula | Text | Based | Quantity | Group | Items | Range | Union | Assign | Relation | Chain | Ratio


def is_constant(value: Value) -> bool:
    """Whether this is a number, however it is written, or several of them."""
    if isinstance(value, Items):
        return all(is_constant(item) for item in value.items)
    return isinstance(value, Number) or (isinstance(value, Formula) and not _LETTER.search(_NAMED_CONSTANT.sub("", value.latex)))


def is_one_constant(value: Value) -> bool:
    """Whether this is one number, however it is written, with no letter of any alphabet that may stand for another."""
    return is_constant(value) and not isinstance(value, Items) and (isinstance(value, Number) or not _VARIABLE.search(value.latex))
