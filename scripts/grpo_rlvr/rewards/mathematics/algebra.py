"""Algebra on leaves with SymPy and the LaTeX parser of math-verify. Runs in the worker process only."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy

from grpo_rlvr.rewards.mathematics.comparison import _bounds
from grpo_rlvr.rewards.mathematics.rounding import rounds_to
from grpo_rlvr.rewards.mathematics.values import Formula, Group, Items, Number, Range, Relation, Union, Value

DIGITS = 60
# Two different closed forms that agree to this many digits by chance do not turn up in answers.
AGREE = sympy.Float(10, DIGITS) ** -45
_CONFIG = ConversionConfig(lowercase_symbols=False)
# The parser adds "12 34" to 46 and drops the index of a number: no reading is better than that one.
_MISREAD = re.compile(r"\d \d|\d ?_")
_DEGREES = re.compile(r"(\d+(?:\.\d+)?) ?°")
_POINTS = [sympy.Rational(p, q) for p, q in ((7, 3), (-11, 7), (5, 13), (-3, 17), (29, 5), (31, 19), (-23, 9), (2, 7), (41, 11))]
_INTEGERS = [sympy.Integer(k) for k in (5, 2, 7, 3, 11, 4, 13, 6, 8)]


_UNEVALUATED = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Derivative, sympy.Limit, sympy.UnevaluatedExpr, sympy.Mod, sympy.factorial)


class Unreadable(ValueError):
    """The formula is not one that the parser knows."""


@lru_cache(maxsize=512)
def parse(latex: str) -> Any:
    """The SymPy object of a formula, with exact decimals. Raises Unreadable, also for what the parser would misread."""
    if _MISREAD.search(latex):
        raise Unreadable(latex)
    latex = re.sub(r"([A-Za-z])('+)", lambda m: f"{m[1]}_{{prime{len(m[2])}}}", latex)
    latex = _DEGREES.sub(r"{(\\frac{\1\\pi}{180})}", latex)
    if "°" in latex:
        raise Unreadable(latex)
    try:
        expr = latex2sympy(latex, is_real=True, convert_degrees=False, normalization_config=None, conversion_config=_CONFIG)
    except RecursionError:
        raise Unreadable(latex) from None
    except Exception as exc:
        raise Unreadable(f"{latex}: {type(exc).__name__}") from None
    if isinstance(expr, sympy.MatrixBase):
        return sympy.ImmutableMatrix(expr.applyfunc(_exact))
    return _exact(expr) if isinstance(expr, sympy.Basic) else expr


def _exact(expr: Any) -> Any:
    floats = {f: sympy.Rational(str(f)) for f in expr.atoms(sympy.Float)}
    imaginary = {s: sympy.I for s in expr.free_symbols if s.name == "i"}
    euler = {s: sympy.E for s in expr.free_symbols if s.name == "e"}
    return expr.xreplace({**floats, **imaginary, **euler})


def expression(value: Value) -> Any:
    """The SymPy object of a leaf."""
    if isinstance(value, Number):
        return sympy.Rational(value.value.numerator, value.value.denominator)
    if isinstance(value, Formula):
        return parse(value.latex)
    raise Unreadable(type(value).__name__)


class Symbolic:
    """The algebra of `comparison.same`, done in earnest."""

    def equal(self, a: Number | Formula, b: Number | Formula) -> bool:
        if a == b:
            return True
        try:
            return same_expression(expression(a), expression(b))
        except Unreadable:
            return False

    def near(self, a: Number | Formula, rounded: Number) -> bool:
        try:
            value = expression(a).evalf(DIGITS)
        except (Unreadable, AttributeError):
            return False
        return bool(value.is_Float) and rounds_to(float(value), rounded)

    def same_relation(self, a: Relation, b: Relation) -> bool:
        if a == b:
            return True
        try:
            first, second = (expression(r.left) - expression(r.right) for r in (a, b))
        except (Unreadable, TypeError):
            return False
        if not (isinstance(first, sympy.Expr) and isinstance(second, sympy.Expr)):
            return False
        if not first.free_symbols or first.free_symbols != second.free_symbols or a.operator != b.operator:
            return False
        factor = constant_ratio(first, second)
        return factor is not None and (a.operator in ("=", "!=") or factor > 0)

    def same_set(self, a: Value, b: Value) -> bool:
        try:
            first, second = as_set(a), as_set(b)
            return first == second or first.symmetric_difference(second) == sympy.EmptySet
        except (Unreadable, TypeError, ValueError, NotImplementedError):
            return False


def same_expression(a: Any, b: Any) -> bool:
    """Equal values: matrices by element, numbers to many digits relative to their size, formulas at sample points."""
    if isinstance(a, sympy.MatrixBase) or isinstance(b, sympy.MatrixBase):
        both = isinstance(a, sympy.MatrixBase) and isinstance(b, sympy.MatrixBase)
        return both and a.shape == b.shape and all(same_expression(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, sympy.Set) or isinstance(b, sympy.Set):
        return isinstance(a, sympy.Set) and isinstance(b, sympy.Set) and a == b
    if not (isinstance(a, sympy.Expr) and isinstance(b, sympy.Expr)):
        return type(a) is type(b) and a == b
    if a == b:
        return not a.has(sympy.nan, sympy.zoo)
    a, b = _evaluated(a), _evaluated(b)
    if a.has(sympy.nan, sympy.zoo) or b.has(sympy.nan, sympy.zoo):
        return False
    if a == b:
        return True
    if a.free_symbols != b.free_symbols:
        # x - x + 3 is 3, but x is not y.
        return sympy.simplify(a - b) == 0
    if not a.free_symbols:
        return same_number(a, b)
    if agree := _agree_at_points(a, b):
        return agree == "yes"
    return sympy.simplify(a - b) == 0


def _evaluated(expr: Any) -> Any:
    return expr.doit() if expr.has(*_UNEVALUATED) else expr


def same_number(a: Any, b: Any) -> bool:
    """Whether two constants are equal: exactly if rational, else to 45 digits of the larger one."""
    if a.is_Rational and b.is_Rational:
        return a == b
    if a.is_infinite or b.is_infinite:
        return a == b
    # evalf keeps relative precision, so that 2^-98 and 2^-99 differ and no rounding to a fixed place is involved.
    x, y = a.evalf(DIGITS), b.evalf(DIGITS)
    if not (x.is_number and y.is_number) or x.has(sympy.nan) or y.has(sympy.nan):
        return False
    size = max(abs(x), abs(y))
    if size == 0:
        return True
    if abs(x - y) > AGREE * size:
        # A sum that cancels to zero keeps no digits at all: only then is the difference asked for symbolically.
        return bool(min(abs(x), abs(y)) < AGREE and size < AGREE and sympy.simplify(a - b) == 0)
    return True


def _agree_at_points(a: Any, b: Any) -> str:
    """ "yes", "no", or "" where too few points have a finite real value on both sides."""
    symbols = sorted(a.free_symbols, key=lambda s: s.name)
    counted = a.has(sympy.factorial, sympy.binomial, sympy.Sum, sympy.Product) or b.has(sympy.factorial, sympy.binomial, sympy.Sum, sympy.Product)
    points = _INTEGERS if counted else _POINTS
    valid = 0
    for start in range(len(points)):
        at = {s: points[(start + 2 * k) % len(points)] + (k // len(points)) for k, s in enumerate(symbols)}
        try:
            x, y = a.xreplace(at).doit().evalf(30), b.xreplace(at).doit().evalf(30)
        except (TypeError, ValueError, ZeroDivisionError, AttributeError, NotImplementedError):
            continue
        if not (x.is_number and y.is_number) or x.has(sympy.nan, sympy.zoo, sympy.oo) or y.has(sympy.nan, sympy.zoo, sympy.oo):
            continue
        if bool(sympy.im(x)) != bool(sympy.im(y)):
            continue  # outside the domain of one of the two
        if abs(x - y) > sympy.Float(10) ** -20 * max(1, abs(x), abs(y)):
            return "no"
        valid += 1
    return "yes" if valid >= 4 else ""


def constant_ratio(a: Any, b: Any) -> Any:
    """The constant c with a = c*b, found at sample points; None if there is none."""
    ratio = sympy.cancel(sympy.together(a / b)) if b != 0 else sympy.nan
    if ratio.is_number:
        return ratio if ratio.is_finite and ratio != 0 else None
    ratio = sympy.simplify(ratio)
    return ratio if ratio.is_number and ratio.is_finite and ratio != 0 else None


def as_set(value: Value) -> sympy.Set:
    """Ranges, intervals, unions and finite sets as SymPy sets. Raises Unreadable for everything else."""
    if isinstance(value, Union):
        return sympy.Union(*(as_set(p) for p in value.parts))
    if isinstance(value, (Range, Group)) and (bounds := _bounds(value)):
        low, low_closed, high, high_closed = bounds
        return sympy.Interval(expression(low), expression(high), left_open=not low_closed, right_open=not high_closed)
    if isinstance(value, Items):
        return sympy.FiniteSet(*(expression(i) for i in value.items))
    if isinstance(value, Formula):
        found = parse(value.latex)
        if isinstance(found, sympy.Set):
            return found
    raise Unreadable(type(value).__name__)
