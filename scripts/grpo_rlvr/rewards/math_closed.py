r"""Closed forms compared exactly and without a computer algebra system: quotients of polynomials with square roots and constants.

`3\sqrt{2}/2`, `(x+1)(x-2)` and `\frac{5\pi}{6}` are most of what tasks ask for beyond plain numbers. Each is brought to one spelling, a sum of
rational multiples of sqrt(d) times powers of symbols, with d square-free. These products are linearly independent over the rationals, so
two forms are equal if and only if they are spelled alike. Whatever is not certainly of this kind is left to the algebra worker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd

# Larger forms are left to the worker, which can be killed; this code cannot.
MAX_LENGTH, MAX_DEPTH, MAX_TERMS, MAX_BITS, MAX_POWER, MAX_RADICAND = 400, 20, 60, 4000, 16, 10**8
_TOKEN = re.compile(r"\s*(\\[A-Za-z]+|\d+(?:\.\d+)?|\.\d+|[A-Za-z]|[-+*/^(){}])\s*")
_GREEK = ("\\alpha", "\\beta", "\\delta", "\\theta", "\\lambda", "\\mu", "\\sigma", "\\omega")
# i is imaginary and d may be a differential.
_NO_SYMBOL = ("i", "d")
_TIMES = ("*", "\\cdot", "\\times")
_CONSTANTS = frozenset(("e", "\\pi"))

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


def constant(value: Fraction) -> Closed:
    return Closed({(1, ()): value} if value else {}, ONE)


@lru_cache(maxsize=8192)
def closed_form(latex: str) -> Closed | None:
    """The form of a normalised formula; None for what is not of this kind."""
    try:
        tokens = _tokens(latex)
        reader = _Reader(tokens)
        form = reader.sum(0)
        return form if reader.at == len(tokens) else None
    except (Unsure, ValueError, ZeroDivisionError, OverflowError):
        return None


def _tokens(latex: str) -> list[str]:
    if len(latex) > MAX_LENGTH:
        raise Unsure
    tokens, at = [], 0
    while at < len(latex):
        match = _TOKEN.match(latex, at)
        if match is None:
            raise Unsure
        tokens.append(match[1])
        at = match.end()
    return tokens


class _Reader:
    """Recursive descent over the tokens; spellings that people read in two ways (1/2x, x2, f(x)) raise Unsure."""

    def __init__(self, tokens: list[str]):
        self.tokens, self.at = tokens, 0

    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, token: str) -> bool:
        found = self.next() == token
        self.at += found
        return found

    def need(self, token: str) -> None:
        if not self.take(token):
            raise Unsure

    def sum(self, depth: int) -> Closed:
        if depth > MAX_DEPTH:
            raise Unsure
        negative = self.take("-")
        if not negative:
            self.take("+")
        total = self.product(depth)
        total = _negated(total) if negative else total
        while self.next() in ("+", "-"):
            minus = self.take("-") or not self.take("+")
            term = self.product(depth)
            total = _add(total, _negated(term) if minus else term)
        return total

    def product(self, depth: int) -> Closed:
        value = self.power(depth)
        while (token := self.next()) and token not in ("+", "-", ")", "}"):
            if token == "/":
                self.at += 1
                value = _divide(value, self.power(depth))
                if self.next() not in ("", "+", "-", ")", "}"):
                    raise Unsure
            elif token in _TIMES:
                self.at += 1
                value = _multiply(value, self.power(depth))
            else:
                before = self.tokens[self.at - 1]
                called = token == "(" and before.isalpha()
                mixed = token == "\\frac" and before[-1].isdigit()
                if token[0].isdigit() or token[0] == "." or token in ("^", "{") or called or mixed:
                    raise Unsure
                value = _multiply(value, self.power(depth))
        return value

    def power(self, depth: int) -> Closed:
        base = self.atom(depth)
        if not self.take("^"):
            return base
        self.need("{")
        exponent = rational(self.sum(depth + 1))
        self.need("}")
        if exponent is None or self.next() == "^":
            raise Unsure
        if exponent == Fraction(1, 2):
            return _root(base)
        if exponent.denominator != 1:
            raise Unsure
        return _raised(base, int(exponent))

    def atom(self, depth: int) -> Closed:
        token = self.next()
        self.at += 1
        if token[:1].isdigit() or token[:1] == ".":
            return constant(Fraction(token))
        if token in ("(", "{"):
            inside = self.sum(depth + 1)
            self.need(")" if token == "(" else "}")
            return inside
        if token == "\\frac":
            return _divide(self.braced(depth), self.braced(depth))
        if token == "\\sqrt":
            return _root(self.braced(depth))
        if (token.isalpha() and token not in _NO_SYMBOL) or token == "\\pi" or token in _GREEK:
            return Closed({(1, ((token, 1),)): Fraction(1)}, ONE)
        raise Unsure

    def braced(self, depth: int) -> Closed:
        self.need("{")
        inside = self.sum(depth + 1)
        self.need("}")
        return inside


# ---- arithmetic


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


def _negated(a: Closed) -> Closed:
    return Closed({key: -factor for key, factor in a.top.items()}, a.bottom)


def _add(a: Closed, b: Closed) -> Closed:
    left, right, bottom = a.top, b.top, a.bottom
    if a.bottom != b.bottom:
        left, right, bottom = _times(a.top, b.bottom), _times(b.top, a.bottom), _times(a.bottom, b.bottom)
    out = dict(left)
    for key, factor in right.items():
        out[key] = out.get(key, 0) + factor
    return Closed(_checked(out), bottom)


def _multiply(a: Closed, b: Closed) -> Closed:
    return Closed(_times(a.top, b.top), _times(a.bottom, b.bottom))


def _divide(a: Closed, b: Closed) -> Closed:
    if not b.top:
        raise Unsure
    return _multiply(a, _inverse(b))


def _inverse(a: Closed) -> Closed:
    if len(a.top) == 1:
        ((d, powers), factor) = next(iter(a.top.items()))
        if not powers:  # 1 / (f sqrt(d)) is sqrt(d) / (f d): a number stays above the line
            return Closed(_times(a.bottom, {(d, ()): 1 / (factor * d)}), ONE)
    return Closed(a.bottom, a.top)


def _raised(base: Closed, exponent: int) -> Closed:
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
        result = _multiply(result, base)
    return result


def _root(base: Closed) -> Closed:
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
