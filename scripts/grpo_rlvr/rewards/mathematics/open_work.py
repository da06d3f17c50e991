"""What is left to work out in a formula as it is written: sums of numbers, like terms, radicands with square factors, and the like."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd

from grpo_rlvr.rewards.mathematics.formula_tree import (
    Negative,
    Node,
    Num,
    Power,
    Product,
    Quotient,
    Root,
    Sum,
    Symbol,
    holds,
    parts,
    rational,
    unsigned,
    variable,
)
from grpo_rlvr.rewards.mathematics.radical_sums import MAX_RADICAND

KINDS = frozenset(("sum", "product", "power", "root", "fraction", "tenths", "root below", "root in root"))


def numeral(node: Node) -> bool:
    r"""12, 3/4, 2.5 \cdot 10^3, 10^3."""
    if isinstance(node, Quotient):
        return all(isinstance(unsigned(side), Num) for side in parts(node))
    return isinstance(node, Num) or _scientific(node)


def _scientific(node: Node) -> bool:
    factors = node.factors if isinstance(node, Product) else (Num(Fraction(1)), node)
    return len(factors) == 2 and isinstance(factors[0], Num) and isinstance(factors[1], Power) and _power_of_ten(factors[1])


def _power_of_ten(node: Power) -> bool:
    exponent = unsigned(node.exponent)
    return node.base == Num(Fraction(10)) and isinstance(exponent, Num) and exponent.value.denominator == 1


def work(node: Node) -> set[str]:
    """The kinds of work left in a formula, anywhere in it."""
    found = set().union(*(work(part) for part in parts(node)))
    if isinstance(node, Sum):
        found |= _in_sum(node.terms)
    elif isinstance(node, Product):
        found |= set() if _scientific(node) else _in_product(node.factors)
    elif isinstance(node, Quotient):
        found |= _in_quotient(node)
    elif isinstance(node, Power):
        found |= _in_power(node)
    elif isinstance(node, Root):
        found |= _in_root(node.inside, node.degree)
    return found


def _in_sum(terms: Sequence[Node]) -> set[str]:
    """Like terms: numbers, 2\\sqrt{3} and 5\\sqrt{3}, 2x and 3x; and numbers of which one is a sum itself."""
    like = [_beside_number(term) for term in terms]
    constants = [term for term in terms if not variable(term)]
    nested = len(constants) > 1 and any(_sum_inside(term) for term in constants)
    return {"sum"} if nested or len(set(like)) < len(like) else set()


def _sum_inside(node: Node) -> bool:
    return not isinstance(node, Root) and (isinstance(node, Sum) or any(_sum_inside(part) for part in parts(node)))


def _beside_number(node: Node) -> tuple[str, ...]:
    """What stands beside the number in a term: two terms with the same are like."""
    node = unsigned(node)
    if rational(node):
        return ()
    if isinstance(node, Product):
        return tuple(sorted(name for factor in node.factors for name in _beside_number(factor)))
    if isinstance(node, Quotient):
        return tuple(sorted((*_beside_number(node.top), *(f"1/{name}" for name in _beside_number(node.bottom)))))
    return (repr(node),)


def _in_product(factors: Sequence[Node]) -> set[str]:
    """Two numbers, two roots of numbers, two sums of numbers, the same letter twice."""
    factors = [unsigned(factor) for factor in factors]
    numbers = sum(rational(factor) or _coefficient(factor) != 1 for factor in factors)
    roots = sum(isinstance(factor, Root) and rational(factor.inside) for factor in factors)
    sums = sum(isinstance(factor, Sum) and not variable(factor) for factor in factors)
    letters = [name for factor in factors for name in _letters(factor)]
    return {"product"} if max(numbers, roots, sums) > 1 or len(set(letters)) < len(letters) else set()


def _letters(node: Node) -> list[str]:
    """The letters that are factors of a product."""
    node = unsigned(node)
    if isinstance(node, Product):
        return [name for factor in node.factors for name in _letters(factor)]
    if isinstance(node, Power):
        return _letters(node.base) if rational(node.exponent) else []
    return [node.name] if isinstance(node, Symbol) else []


def _coefficient(node: Node) -> Fraction:
    """The number that stands in front; of a sum the whole number that divides all of its terms. 1 where there is none."""
    node = unsigned(node)
    if isinstance(node, Num):
        return node.value
    if isinstance(node, Product):
        found = Fraction(1)
        for factor in node.factors:
            found *= _coefficient(factor) if not isinstance(unsigned(factor), Sum) else 1
        return found
    if isinstance(node, Quotient):
        bottom = _coefficient(node.bottom)
        return _coefficient(node.top) / bottom if bottom else Fraction(1)
    return Fraction(1)


def _content(node: Node) -> Fraction:
    """The coefficient; of a sum what all of its terms have in common."""
    node = unsigned(node)
    if not isinstance(node, Sum):
        return _coefficient(node)
    numbers = [_coefficient(term) for term in node.terms]
    whole = all(number.denominator == 1 for number in numbers)
    return Fraction(gcd(*(number.numerator for number in numbers))) if whole else Fraction(1)


def _in_quotient(node: Quotient) -> set[str]:
    """A fraction that can be reduced, or is no fraction of whole numbers; a root of a number below the line."""
    top, bottom = _content(node.top), _content(node.bottom)
    found = {"root below"} if _number_root(node.bottom) else set()
    if set(_letters(node.top)) & set(_letters(node.bottom)) or unsigned(node.bottom) == Num(Fraction(1)):
        found.add("fraction")
    elif top.denominator == bottom.denominator == 1:
        if gcd(top.numerator, bottom.numerator) > 1:
            tenths = rational(node) and str(bottom.numerator).strip("0") == "1"
            found.add("tenths" if tenths else "fraction")
    elif bottom != 1:
        found.add("fraction")
    return found


def _number_root(node: Node) -> bool:
    return (isinstance(node, Root) and rational(node.inside)) or any(_number_root(part) for part in parts(node))


def _in_power(node: Power) -> set[str]:
    base, exponent = unsigned(node.base), unsigned(node.exponent)
    if not rational(exponent):
        return set()
    if isinstance(exponent, Quotient) and isinstance(exponent.bottom, Num) and exponent.bottom.value.denominator == 1 and rational(base):
        degree = int(exponent.bottom.value)
        improper = isinstance(exponent.top, Num) and exponent.top.value >= degree
        return {"root"} if improper else _in_root(node.base, degree) if 2 <= degree <= 99 else set()
    if isinstance(base, (Product, Quotient)):
        return {"power"} if _coefficient(base) != 1 or not variable(base) else set()
    if isinstance(base, Power):
        return {"power"}
    return {"power"} if not holds(base, Symbol) and not _power_of_ten(node) else set()


def _in_root(inside: Node, degree: int) -> set[str]:
    """A radicand that is no whole number, or has a factor that can be taken out; a root in a root of numbers."""
    if not variable(inside) and holds(inside, Root):
        return {"root in root"}
    node = unsigned(inside)
    if isinstance(node, Num) or (isinstance(node, Product) and not rational(node)):
        number = _coefficient(node)
        if number.denominator != 1:
            return {"root"}
        negative = isinstance(inside, Negative) and isinstance(node, Num)
        return {"root"} if negative or _power_inside(number.numerator, degree) or (isinstance(node, Num) and number < 2) else set()
    return {"root"} if rational(node) else set()


def _power_inside(n: int, degree: int) -> bool:
    """Whether a power of this degree of a number above 1 divides n; False for a number that is too large to tell."""
    if not 1 < n <= MAX_RADICAND:
        return False
    p = 2
    while p**degree <= n:
        if n % p**degree == 0:
            return True
        p += 1
    return False
