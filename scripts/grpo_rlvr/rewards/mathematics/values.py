"""What kind of thing an answer is: number, formula, text, quantity, tuple, list, set, range, union, assignment, relation.

Kinds are told apart so that no comparison can pass by reading a pair as a set or an equation as its right-hand side.
Only the leaves (`Formula`) need algebra.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Number:
    value: Fraction


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
class Ratio:
    items: tuple[Value, ...]


Value = Number | Formula | Text | Based | Quantity | Group | Items | Range | Union | Assign | Relation | Ratio
