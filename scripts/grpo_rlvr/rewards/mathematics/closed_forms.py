r"""Closed forms compared exactly and without a computer algebra system: quotients of polynomials with square roots and constants.

`3\sqrt{2}/2`, `(x+1)(x-2)` and `\frac{5\pi}{6}` are most of what tasks ask for beyond plain numbers. They are read into the sums of
`radical_sums`. Whatever is not certainly of this kind is left to the algebra worker.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from grpo_rlvr.rewards.mathematics.radical_sums import ONE, Closed, Unsure, add, constant, divide, multiply, negated, raised, rational, root

# Longer formulas are left to the worker, which can be killed; this code cannot.
MAX_LENGTH, MAX_DEPTH = 400, 20
_TOKEN = re.compile(r"\s*(\\[A-Za-z]+|\d+(?:\.\d+)?|\.\d+|[A-Za-z]|[-+*/^(){}])\s*")
_GREEK = ("\\alpha", "\\beta", "\\delta", "\\theta", "\\lambda", "\\mu", "\\sigma", "\\omega")
# i is imaginary and d may be a differential.
_NO_SYMBOL = ("i", "d")
_TIMES = ("*", "\\cdot", "\\times")


@lru_cache(maxsize=8192)
def closed_form(latex: str) -> Closed | None:
    """The form of a normalised formula; None for what is not of this kind."""
    try:
        return ClosedReader(latex).whole()
    except (Unsure, ValueError, ZeroDivisionError, OverflowError):
        return None


class Reader:
    """Recursive descent over the tokens of a formula; what it makes of them is decided by the operations of a subclass.

    Spellings that people read in two ways (x2, f(x)) raise Unsure, and so does `1/2x` unless `left_to_right`.
    """

    token = _TOKEN
    left_to_right = False

    def __init__(self, latex: str):
        if len(latex) > MAX_LENGTH:
            raise Unsure
        tokens, at, token_at = [], 0, self.token.match
        while at < len(latex):
            match = token_at(latex, at)
            if match is None:
                raise Unsure
            tokens.append(match[1])
            at = match.end()
        self.tokens, self.at = tokens, 0

    def whole(self):
        """What the formula is; raises Unsure if something is left over."""
        form = self.sum(0)
        if self.at < len(self.tokens):
            raise Unsure
        return form

    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, token: str) -> bool:
        found = self.next() == token
        self.at += found
        return found

    def need(self, token: str) -> None:
        if not self.take(token):
            raise Unsure

    def sum(self, depth: int):
        if depth > MAX_DEPTH:
            raise Unsure
        negative = self.take("-")
        if not negative:
            self.take("+")
        total = self.product(depth)
        total = self.negated(total) if negative else total
        while self.next() in ("+", "-"):
            minus = self.take("-") or not self.take("+")
            term = self.product(depth)
            total = self.add(total, self.negated(term) if minus else term)
        return total

    def product(self, depth: int):
        value = self.power(depth)
        while (token := self.next()) and token not in ("+", "-", ")", "}"):
            if token == "/":
                self.at += 1
                value = self.divide(value, self.power(depth))
                if not self.left_to_right and self.next() not in ("", "+", "-", ")", "}"):
                    raise Unsure
            elif token in _TIMES:
                self.at += 1
                value = self.multiply(value, self.power(depth))
            else:
                before = self.tokens[self.at - 1]
                called = token == "(" and before.isalpha()
                mixed = token == "\\frac" and before[-1].isdigit()
                if token[0].isdigit() or token[0] == "." or token in ("^", "{") or called or mixed:
                    raise Unsure
                value = self.multiply(value, self.power(depth))
        return value

    def power(self, depth: int):
        base = self.atom(depth)
        if not self.take("^"):
            return base
        self.need("{")
        exponent = self.sum(depth + 1)
        self.need("}")
        if self.next() == "^":
            raise Unsure
        return self.raised(base, exponent)

    def atom(self, depth: int):
        token = self.next()
        self.at += 1
        if token[:1].isdigit() or token[:1] == ".":
            return self.constant(Fraction(token))
        if token in ("(", "{"):
            inside = self.sum(depth + 1)
            self.need(")" if token == "(" else "}")
            return inside
        if token == "\\frac":
            return self.divide(self.braced(depth), self.braced(depth))
        if token == "\\sqrt":
            return self.root(self.braced(depth))
        if token.isalpha() or token == "\\pi" or token in _GREEK:
            return self.symbol(token)
        raise Unsure

    def braced(self, depth: int):
        self.need("{")
        inside = self.sum(depth + 1)
        self.need("}")
        return inside


class ClosedReader(Reader):
    """Reads a formula into a closed form."""

    constant, negated, add, multiply, divide, root = (staticmethod(f) for f in (constant, negated, add, multiply, divide, root))

    def symbol(self, name: str) -> Closed:
        if name in _NO_SYMBOL:
            raise Unsure
        return Closed({(1, ((name, 1),)): Fraction(1)}, ONE)

    def raised(self, base: Closed, exponent: Closed) -> Closed:
        number = rational(exponent)
        if number is None:
            raise Unsure
        if number == Fraction(1, 2):
            return root(base)
        if number.denominator != 1:
            raise Unsure
        return raised(base, int(number))
