r"""Whether an answer is as worked out as the gold: `\sqrt{98}` is equal to `7\sqrt{2}`, but it is the question again.

What is left to do is told by kinds ("sum", "root", ...). A kind that the gold leaves open itself is no fault of the answer, and what is not
certainly read is no fault either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grpo_rlvr.rewards.mathematics.formula_tree import tree, unsigned
from grpo_rlvr.rewards.mathematics.open_work import KINDS, numeral, work
from grpo_rlvr.rewards.mathematics.symbols import FUNCTIONS
from grpo_rlvr.rewards.mathematics.values import (
    Assign,
    Chain,
    Formula,
    Group,
    Items,
    Number,
    Quantity,
    Range,
    Ratio,
    Union,
    Value,
    is_one_constant,
)

_FUNCTION = re.compile(rf"\\(?:{'|'.join(FUNCTIONS)}|binom|lfloor|lceil)(?![A-Za-z])|[!|°]")
_OPERATION = re.compile(r"\\(?:sum|prod|int|lim)(?![A-Za-z])")


def finished(answer: Value, gold: Value) -> bool:
    """Whether nothing is left to work out in an answer that is equal to the gold, but for what the gold leaves open too."""
    golds, answers = list(_leaves(gold)), list(_leaves(answer))
    if not golds:
        return True
    allowed = frozenset().union(*map(open_work, golds))
    if any(isinstance(leaf, Formula) for leaf in golds):
        allowed |= {"no numeral"}
    if any("." in _written(leaf) or "%" in _written(leaf) for leaf in golds) or "fraction" in allowed:
        allowed |= {"tenths"}  # 75/100 is 0.75
    if any(isinstance(leaf, Formula) and tree(leaf.latex) is None for leaf in golds):
        allowed |= KINDS
    return all(open_work(leaf) <= allowed for leaf in answers)


def _leaves(value: Value | None) -> Iterator[Number | Formula]:
    """The numbers and formulas that make up an answer. Of equations there are none: each multiple of one says the same."""
    if isinstance(value, (Number, Formula)):
        yield value
    elif isinstance(value, (Assign, Quantity)):
        yield from _leaves(value.value)
    elif isinstance(value, Chain):
        yield from _leaves(value.parts[-1])
    elif isinstance(value, (Group, Items, Ratio)):
        for item in value.items:
            yield from _leaves(item)
    elif isinstance(value, Union):
        for part in value.parts:
            yield from _leaves(part)
    elif isinstance(value, Range):
        yield from _leaves(value.low)
        yield from _leaves(value.high)


def _written(leaf: Number | Formula) -> str:
    return leaf.written if isinstance(leaf, Number) else leaf.latex


def open_work(leaf: Number | Formula) -> frozenset[str]:
    """The kinds of work that are left in a number or formula."""
    text = _written(leaf)
    node = tree(text)
    if isinstance(leaf, Number):
        return frozenset(work(node) & {"fraction", "tenths"}) if node is not None else frozenset()
    found = set() if node is None else work(node)
    constant = is_one_constant(leaf)
    if constant and _FUNCTION.search(text):
        found.add("function")
    if _OPERATION.search(text):
        found.add("operation")
    if found or (node is not None and not numeral(unsigned(node))):
        found.add("no numeral")
    return frozenset(found)
