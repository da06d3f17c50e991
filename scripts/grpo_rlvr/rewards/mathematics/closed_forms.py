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
        total = negated(total) if negative else total
        while self.next() in ("+", "-"):
            minus = self.take("-") or not self.take("+")
            term = self.product(depth)
            total = add(total, negated(term) if minus else term)
        return total

    def product(self, depth: int) -> Closed:
        value = self.power(depth)
        while (token := self.next()) and token not in ("+", "-", ")", "}"):
            if token == "/":
                self.at += 1
                value = divide(value, self.power(depth))
                if self.next() not in ("", "+", "-", ")", "}"):
                    raise Unsure
            elif token in _TIMES:
                self.at += 1
                value = multiply(value, self.power(depth))
            else:
                before = self.tokens[self.at - 1]
                called = token == "(" and before.isalpha()
                mixed = token == "\\frac" and before[-1].isdigit()
                if token[0].isdigit() or token[0] == "." or token in ("^", "{") or called or mixed:
                    raise Unsure
                value = multiply(value, self.power(depth))
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
            return root(base)
        if exponent.denominator != 1:
            raise Unsure
        return raised(base, int(exponent))

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
            return divide(self.braced(depth), self.braced(depth))
        if token == "\\sqrt":
            return root(self.braced(depth))
        if (token.isalpha() and token not in _NO_SYMBOL) or token == "\\pi" or token in _GREEK:
            return Closed({(1, ((token, 1),)): Fraction(1)}, ONE)
        raise Unsure

    def braced(self, depth: int) -> Closed:
        self.need("{")
        inside = self.sum(depth + 1)
        self.need("}")
        return inside
