r"""Exact arithmetic on quotients of sums of q * sqrt(d) * x^n * ..., with rational q and square-free d.

These products are linearly independent over the rationals, so two sums are equal if and only if they are spelled alike.
Whatever grows too large, or is not certain, raises Unsure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, prod, sqrt

# Larger forms are left to the worker, which can be killed; this code cannot.
MAX_TERMS, MAX_BITS, MAX_POWER, MAX_RADICAND = 60, 4000, 16, 10**8
_SIZES = {"e": math.e, "\\pi": math.pi}
_CONSTANTS = frozenset(_SIZES)

Powers = tuple[tuple[str, int], ...]
Sum = dict[tuple[int, Powers], Fraction]  # (d, powers of symbols) -> factor, none of them 0
ONE: Sum = {(1, ()): Fraction(1)}


class Unsure(ValueError):
    """Not certainly a closed form of this kind, or a large one."""


@dataclass(frozen=True)
class Closed:
    """A closed form: `top` over `bottom`, and the symbols in it."""

    top: Sum
    bottom: Sum

    @property
    def symbols(self) -> set[str]:
        return {name for part in (self.top, self.bottom) for _, powers in part for name, _ in powers}


def same_closed(a: Closed | None, b: Closed | None) -> bool | None:
    """Whether two forms are equal; None where that is not certain, also for forms that could not be read."""
    if a is None or b is None:
        return None
    try:
        equal = a.top == b.top if a.bottom == b.bottom else _times(a.top, b.bottom) == _times(b.top, a.bottom)
    except Unsure:
        return None
    # Whether e and pi are independent of each other is not known.
    return None if not equal and a.symbols | b.symbols >= _CONSTANTS else equal


def estimate(form: Closed) -> float | None:
    """About the value of a form without variables; None for one with variables, or too large for a float."""
    if not form.symbols <= _CONSTANTS:
        return None
    try:
        top, bottom = (
            sum(float(factor) * sqrt(d) * prod(_SIZES[name] ** power for name, power in powers) for (d, powers), factor in part.items())
            for part in (form.top, form.bottom)
        )
        return top / bottom
    except (OverflowError, ZeroDivisionError):
        return None


def constant(value: Fraction) -> Closed:
    return Closed({(1, ()): value} if value else {}, ONE)


def rational(form: Closed) -> Fraction | None:
    """The number that a form without roots and symbols is."""
    if form.bottom != ONE or not form.top.keys() <= ONE.keys():
        return None
    return form.top.get((1, ()), Fraction(0))


def _checked(terms: Sum) -> Sum:
    out = {key: factor for key, factor in terms.items() if factor}
    if len(out) > MAX_TERMS or any(max(f.numerator.bit_length(), f.denominator.bit_length()) > MAX_BITS for f in out.values()):
        raise Unsure
    return out


def _times(a: Sum, b: Sum) -> Sum:
    if a == ONE or b == ONE:
        return b if a == ONE else a
    if len(a) * len(b) > MAX_TERMS**2:
        raise Unsure
    out: Sum = {}
    for (d, powers), x in a.items():
        for (e, others), y in b.items():
            common = gcd(d, e)
            key = (d // common * (e // common), _merged(powers, others))
            out[key] = out.get(key, 0) + x * y * common
    return _checked(out)


def _merged(a: Powers, b: Powers) -> Powers:
    if not a or not b:
        return a or b
    powers = dict(a)
    for name, power in b:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted(powers.items()))


def negated(a: Closed) -> Closed:
    return Closed({key: -factor for key, factor in a.top.items()}, a.bottom)


def add(a: Closed, b: Closed) -> Closed:
    left, right, bottom = a.top, b.top, a.bottom
    if a.bottom != b.bottom:
        left, right, bottom = _times(a.top, b.bottom), _times(b.top, a.bottom), _times(a.bottom, b.bottom)
    out = dict(left)
    for key, factor in right.items():
        out[key] = out.get(key, 0) + factor
    return Closed(_checked(out), bottom)


def multiply(a: Closed, b: Closed) -> Closed:
    return Closed(_times(a.top, b.top), _times(a.bottom, b.bottom))


def divide(a: Closed, b: Closed) -> Closed:
    if not b.top:
        raise Unsure
    return multiply(a, _inverse(b))


def _inverse(a: Closed) -> Closed:
    if len(a.top) == 1:
        ((d, powers), factor) = next(iter(a.top.items()))
        if not powers:  # 1 / (f sqrt(d)) is sqrt(d) / (f d): a number stays above the line
            return Closed(_times(a.bottom, {(d, ()): 1 / (factor * d)}), ONE)
    return Closed(a.bottom, a.top)


def raised(base: Closed, exponent: int) -> Closed:
    if exponent < 0:
        if not base.top:
            raise Unsure
        base, exponent = _inverse(base), -exponent
    number = rational(base)
    if number is not None:
        if exponent * max(number.numerator.bit_length(), number.denominator.bit_length()) > MAX_BITS or (exponent == 0 == number):
            raise Unsure
        return constant(number**exponent)
    if exponent > MAX_POWER:
        raise Unsure
    result = Closed(ONE, ONE)
    for _ in range(exponent):
        result = multiply(result, base)
    return result


def root(base: Closed) -> Closed:
    number = rational(base)
    if number is None or number < 0 or number.numerator * number.denominator > MAX_RADICAND:
        raise Unsure
    if number == 0:
        return constant(number)
    outside, inside = _square_free(number.numerator * number.denominator)
    return Closed({(inside, ()): Fraction(outside, number.denominator)}, ONE)


@lru_cache(maxsize=4096)
def _square_free(n: int) -> tuple[int, int]:
    """(a, b) with n = a*a*b and b square-free."""
    a, b, p = 1, 1, 2
    while p * p <= n:
        power = 0
        while n % p == 0:
            n //= p
            power += 1
        a, b = a * p ** (power // 2), b * p ** (power % 2)
        p += 1
    return a, b * n
