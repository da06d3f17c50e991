r"""A formula as it is written: sums, products, quotients, powers and roots, with nothing worked out.

`closed_forms` reads the same formulas into their values; here `2 \cdot 3` stays a product of two numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from grpo_rlvr.rewards.mathematics.closed_forms import Reader
from grpo_rlvr.rewards.mathematics.radical_sums import Unsure

MAX_DEGREE = 99
_CONSTANTS = ("e", "i", "\\pi")
_TOKEN = re.compile(r"\s*(\\[A-Za-z]+|\d+(?:\.\d+)?|\.\d+|[A-Za-z]|[-+*/^(){}\[\]])\s*")


@dataclass(frozen=True)
class Num:
    """A number as one token: 12, 0.5."""

    value: Fraction


@dataclass(frozen=True)
class Symbol:
    name: str


@dataclass(frozen=True)
class Sum:
    terms: tuple[Node, ...]


@dataclass(frozen=True)
class Product:
    factors: tuple[Node, ...]


@dataclass(frozen=True)
class Negative:
    inside: Node


@dataclass(frozen=True)
class Quotient:
    top: Node
    bottom: Node


@dataclass(frozen=True)
class Power:
    base: Node
    exponent: Node


@dataclass(frozen=True)
class Root:
    inside: Node
    degree: int


Node = Num | Symbol | Sum | Product | Negative | Quotient | Power | Root


@lru_cache(maxsize=4096)
def tree(latex: str) -> Node | None:
    """The formula as it is written; None for one that is not certainly of this kind."""
    try:
        return _TreeReader(latex).whole()
    except (Unsure, ValueError, RecursionError):
        return None


def parts(node: Node) -> tuple[Node, ...]:
    """What a node is made of."""
    if isinstance(node, (Sum, Product)):
        return node.terms if isinstance(node, Sum) else node.factors
    if isinstance(node, (Negative, Root)):
        return (node.inside,)
    if isinstance(node, Quotient):
        return node.top, node.bottom
    return (node.base, node.exponent) if isinstance(node, Power) else ()


def holds(node: Node, kind: type) -> bool:
    """Whether the node is of this kind or has such a one in it."""
    return isinstance(node, kind) or any(holds(part, kind) for part in parts(node))


def variable(node: Node) -> bool:
    """Whether a letter stands in it that is not e, i or pi."""
    return node.name not in _CONSTANTS if isinstance(node, Symbol) else any(variable(part) for part in parts(node))


def rational(node: Node) -> bool:
    """Whether it is made of numbers alone, without roots."""
    return not holds(node, Symbol) and not holds(node, Root)


def unsigned(node: Node) -> Node:
    return unsigned(node.inside) if isinstance(node, Negative) else node


class _TreeReader(Reader):
    token = _TOKEN
    left_to_right = True
    constant, symbol, divide, raised = Num, Symbol, Quotient, Power

    def negated(self, a: Node) -> Node:
        return Negative(a)

    def add(self, a: Node, b: Node) -> Node:
        return Sum(tuple(t for side in (a, b) for t in (side.terms if isinstance(side, Sum) else (side,))))

    def multiply(self, a: Node, b: Node) -> Node:
        return Product(tuple(f for side in (a, b) for f in (side.factors if isinstance(side, Product) else (side,))))

    def root(self, inside: Node) -> Node:
        return Root(inside, 2)

    def atom(self, depth: int) -> Node:
        """Also a root with a degree."""
        if self.tokens[self.at : self.at + 2] != ["\\sqrt", "["]:
            return super().atom(depth)
        degree, close = self.tokens[self.at + 2 : self.at + 3], self.tokens[self.at + 3 : self.at + 4]
        if close != ["]"] or not degree[0].isdigit() or not 2 <= int(degree[0]) <= MAX_DEGREE:
            raise Unsure
        self.at += 4
        return Root(self.braced(depth), int(degree[0]))
