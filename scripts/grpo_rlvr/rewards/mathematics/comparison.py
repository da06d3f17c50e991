"""Equal in value and kind: walks two values side by side and leaves algebra to the one who can do it."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from grpo_rlvr.rewards.mathematics.closed_forms import closed_form
from grpo_rlvr.rewards.mathematics.radical_sums import Closed, constant, estimate, same_closed
from grpo_rlvr.rewards.mathematics.rounding import rounds_to
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
    is_constant,
)

# Pairing items of unordered lists costs the square of their number.
MAX_ITEMS = 60


class NeedsAlgebra(Exception):
    """The two values cannot be told apart or together without a computer algebra system."""


class Algebra(Protocol):
    """Decides about leaves; any method may raise NeedsAlgebra."""

    def equal(self, a: Number | Formula, b: Number | Formula) -> bool:
        """Whether two numbers or formulas have the same value."""

    def near(self, a: Number | Formula, rounded: Number) -> bool:
        """Whether a constant is about the number that it was rounded to."""

    def same_relation(self, a: Relation, b: Relation) -> bool:
        """Whether two equations or inequalities have the same solutions."""

    def same_set(self, a: Value, b: Value) -> bool:
        """Whether two sets of numbers are the same."""


class Exact:
    """The part of the algebra that needs no SymPy: exact numbers, formulas spelled alike, closed forms."""

    def equal(self, a: Number | Formula, b: Number | Formula) -> bool:
        if isinstance(a, Number) and isinstance(b, Number):
            return a.value == b.value
        if a == b:
            return True
        equal = same_closed(_closed(a), _closed(b))
        if equal is None:
            raise NeedsAlgebra
        return equal

    def near(self, a: Number | Formula, rounded: Number) -> bool:
        form = _closed(a)
        found = None if form is None else estimate(form)
        if found is None:
            raise NeedsAlgebra
        return rounds_to(found, rounded)

    def same_relation(self, a: Relation, b: Relation) -> bool:
        raise NeedsAlgebra

    def same_set(self, a: Value, b: Value) -> bool:
        raise NeedsAlgebra


def _closed(leaf: Number | Formula) -> Closed | None:
    return constant(leaf.value) if isinstance(leaf, Number) else closed_form(leaf.latex)


def same(gold: Value, answer: Value, algebra: Algebra) -> bool:
    """Whether `answer` equals `gold` in value and kind."""
    if isinstance(gold, Number) and isinstance(answer, Number):  # most answers are: the rest is not asked for them
        return gold.value == answer.value
    if isinstance(gold, Chain) or isinstance(answer, Chain):
        return _same_chains(gold, answer, algebra)
    if isinstance(gold, Quantity) and isinstance(answer, Quantity):
        return gold.unit == answer.unit and same(gold.value, answer.value, algebra)
    if isinstance(gold, Quantity) or isinstance(answer, Quantity):
        # The question names the unit: leaving it out, or adding it, is the same answer; another unit is not.
        return same(gold.value if isinstance(gold, Quantity) else gold, answer.value if isinstance(answer, Quantity) else answer, algebra)
    if isinstance(gold, (Assign, Relation)) or isinstance(answer, (Assign, Relation)):
        return _same_relations(gold, answer, algebra)
    if any(isinstance(v, Items) and v.braces for v in (gold, answer)) and any(isinstance(v, Union) for v in (gold, answer)):
        return algebra.same_set(gold, answer)
    if isinstance(gold, Items) or isinstance(answer, Items):
        return _same_items(gold, answer, algebra)
    if isinstance(gold, (Range, Union)) or isinstance(answer, (Range, Union)):
        return _same_ranges(gold, answer, algebra)
    if isinstance(gold, Group) and isinstance(answer, Group):
        return (gold.left, gold.right) == (answer.left, answer.right) and _all_same(gold.items, answer.items, algebra)
    if isinstance(gold, Group) or isinstance(answer, Group):
        group, other = (gold, answer) if isinstance(gold, Group) else (answer, gold)
        return isinstance(other, Formula) and "\\math" in other.latex and len(group.items) == 2 and algebra.same_set(gold, answer)
    if isinstance(gold, Ratio) and isinstance(answer, Ratio):
        return _all_same(gold.items, answer.items, algebra)
    if isinstance(gold, Based) or isinstance(answer, Based):
        return _decimal(gold) == _decimal(answer)
    if isinstance(gold, Text) and isinstance(answer, Text):
        return gold.words == answer.words
    if isinstance(gold, (Number, Formula)) and isinstance(answer, (Number, Formula)):
        return algebra.equal(gold, answer)
    return False


def _same_chains(gold: Value, answer: Value, algebra: Algebra) -> bool:
    """The last parts count, and nothing that stands before or behind them may be wrong."""
    chains = [value for value in (gold, answer) if isinstance(value, Chain)]
    last_gold, last_answer = (value.parts[-1] if isinstance(value, Chain) else value for value in (gold, answer))
    return same(last_gold, last_answer, algebra) and all(_holds(chain, algebra) for chain in chains)


def _holds(chain: Chain, algebra: Algebra) -> bool:
    last = chain.parts[-1]
    rounded = [_unitless(value) for value in chain.rounded]
    return (
        all(same(last, part, algebra) for part in chain.parts[:-1])
        and all(isinstance(value, Number) for value in rounded)
        and all(algebra.near(_unitless(last), value) for value in rounded)
    )


def _unitless(value: Value) -> Value:
    return value.value if isinstance(value, Quantity) else value


def _decimal(value: Value) -> Value:
    """A number written with base 10 is that number; in another base it is asked for in that base."""
    return Number(Fraction(int(value.digits))) if isinstance(value, Based) and value.base == 10 else value


def _all_same(golds: tuple[Value, ...], answers: tuple[Value, ...], algebra: Algebra) -> bool:
    return len(golds) == len(answers) and all(same(g, a, algebra) for g, a in zip(golds, answers, strict=True))


def _same_items(gold: Value, answer: Value, algebra: Algebra) -> bool:
    if isinstance(gold, Group) or isinstance(answer, Group):
        return False
    golds, answers = (v.items if isinstance(v, Items) else (v,) for v in (gold, answer))
    if any(isinstance(v, Items) and v.braces for v in (gold, answer)):
        golds, answers = _distinct(golds, algebra), _distinct(answers, algebra)
    if len(golds) != len(answers) or len(golds) > MAX_ITEMS:
        return False
    left = list(answers)
    for item in golds:
        # Spelled alike first: it spares the algebra most of its work.
        match = next((i for i, a in enumerate(left) if a == item), None)
        if match is None:
            match = next((i for i, a in enumerate(left) if not isinstance(a, Items) and not isinstance(item, Items) and same(item, a, algebra)), None)
        if match is None:
            return False
        del left[match]
    return True


def _distinct(items: tuple[Value, ...], algebra: Algebra) -> tuple[Value, ...]:
    out: list[Value] = []
    for item in items[: MAX_ITEMS + 1]:
        if not any(item == o or (isinstance(item, (Number, Formula)) and isinstance(o, (Number, Formula)) and algebra.equal(item, o)) for o in out):
            out.append(item)
    return tuple(out)


def _same_ranges(gold: Value, answer: Value, algebra: Algebra) -> bool:
    if isinstance(gold, Union) and isinstance(answer, Union) and len(gold.parts) == len(answer.parts) and set(gold.parts) == set(answer.parts):
        return True
    names = _range_names(gold) | _range_names(answer)
    if len(names) > 1 or not all(isinstance(v, (Range, Union, Group, Formula)) for v in (gold, answer)):
        return False
    if isinstance(gold, Union) or isinstance(answer, Union) or isinstance(gold, Formula) or isinstance(answer, Formula):
        return algebra.same_set(gold, answer)
    bounds = [_bounds(gold), _bounds(answer)]
    if None in bounds:
        return False
    (low, low_closed, high, high_closed), (low2, low_closed2, high2, high_closed2) = bounds
    return (low_closed, high_closed) == (low_closed2, high_closed2) and same(low, low2, algebra) and same(high, high2, algebra)


def _range_names(value: Value) -> set[str]:
    """The variables of inequalities in `value`."""
    return {part.name for part in (value.parts if isinstance(value, Union) else (value,)) if isinstance(part, Range)}


def _bounds(value: Value) -> tuple[Value, bool, Value, bool] | None:
    """Low end, whether it belongs, high end, whether it belongs; None if the value is no interval."""
    if isinstance(value, Range):
        return value.low or Formula("-\\infty"), value.low_closed, value.high or Formula("\\infty"), value.high_closed
    if isinstance(value, Group) and len(value.items) == 2:
        return value.items[0], value.left == "[", value.items[1], value.right == "]"
    return None


def _same_relations(gold: Value, answer: Value, algebra: Algebra) -> bool:
    if isinstance(gold, Assign) and isinstance(answer, Assign):
        if gold.name == answer.name or _interchangeable(gold.name, answer.name):
            return same(gold.value, answer.value, algebra)
        relations = [_as_relation(gold), _as_relation(answer)]
        # x = 5 and y = 5 are different answers; y = 2x and x = y/2 are the same line.
        return None not in relations and all(isinstance(r.right, Formula) for r in relations) and algebra.same_relation(*relations)
    if isinstance(gold, (Assign, Relation)) and isinstance(answer, (Assign, Relation)):
        if isinstance(gold, Assign) and is_constant(gold.value):
            return False  # 2x = 10 is the question again, not the answer x = 5
        relations = [_as_relation(gold), _as_relation(answer)]
        return None not in relations and algebra.same_relation(*relations)
    relation, other = (gold, answer) if isinstance(gold, (Assign, Relation)) else (answer, gold)
    if isinstance(relation, Assign):
        names = _range_names(other)
        if names and relation.name not in names:
            return False  # a in [1, 2] and 1 <= b <= 2
        return same(relation.value, other, algebra)
    # 12 - 7 = 5 says 5; 2x + y = 0 does not say 0.
    is_sum = relation.operator == "=" and isinstance(relation.left, (Number, Formula)) and isinstance(relation.right, Number)
    numeric = is_sum and isinstance(other, Number)
    return numeric and same(relation.right, other, algebra) and algebra.equal(relation.left, relation.right)


def _interchangeable(a: str, b: str) -> bool:
    """Names that only label the answer: a function's value beside y, or words."""

    def kind(name: str) -> str:
        if "\\text" in name or (name.isalpha() and len(name) > 2) or " " in name:
            return "words"
        called = name.endswith(")") and not name.startswith("(")
        return "function" if called and not any(c.isdigit() for c in name) else "letter"

    kinds = {kind(a), kind(b)}
    return "words" in kinds or ("function" in kinds and (kinds == {"function"} and a[0] == b[0] or "y" in (a, b)))


def _as_relation(value: Assign | Relation) -> Relation | None:
    if isinstance(value, Relation):
        return value
    return Relation(Formula(value.name), "=", value.value) if isinstance(value.value, (Number, Formula)) else None
