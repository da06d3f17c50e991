"""Closed forms compared without the algebra worker: right where SymPy is right, silent where a spelling has two readings."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from grpo_rlvr.rewards import math_reward
from grpo_rlvr.rewards.mathematics.algebra_process import ALGEBRA
from grpo_rlvr.rewards.mathematics.closed_forms import closed_form
from grpo_rlvr.rewards.mathematics.radical_sums import constant, rational, same_closed
from grpo_rlvr.rewards.mathematics.spelling import normalise
from hypothesis import given, settings
from hypothesis import strategies as st

EQUAL = [
    (r"3\sqrt{2}/2", r"\frac{3}{\sqrt2}"),
    (r"\sqrt{50}", r"5\sqrt2"),
    (r"\sqrt{\frac{3}{4}}", r"\frac{\sqrt{3}}{2}"),
    (r"\sqrt2\sqrt3", r"\sqrt6"),
    (r"\frac{1}{\sqrt2+1}", r"\sqrt{2}-1"),
    (r"(x+1)(x-2)", r"x^2-x-2"),
    (r"\frac{x^2-1}{x-1}", "x+1"),
    (r"\frac{10\pi}{12}", r"\frac56\pi"),
    (r"-(a-b)", "b-a"),
    (r"2xy", r"y \cdot x * 2"),
    (r"9^{1/2}e", "3e"),
    (r"x^{-2}", r"\frac{1}{x^2}"),
    (r"2^{10}x", "1024x"),
    (r"0.5x", r"\frac{x}{2}"),
]
DIFFERENT = [
    (r"3\sqrt{2}", r"2\sqrt{3}"),
    (r"\sqrt2+\sqrt3", r"\sqrt5"),
    ("-x^2", "(-x)^2"),
    (r"\pi", "3.14159265358979"),
    (r"\frac{x}{y}", r"\frac{y}{x}"),
    ("x+1", "y+1"),
    ("3-2-1", "3-(2-1)"),
    (r"\frac{\pi}{6}", r"\frac{\pi}{3}"),
]
# Two readings, or no sum of this kind: the worker decides.
UNSURE = [
    "1/2x",
    "x2",
    "f(x)",
    r"\sqrt{x}",
    r"\sqrt[3]{2}",
    "2^x",
    "i",
    "x_1",
    "dx",
    r"\ln 2",
    "x^{2^{3}}y^",
    "0^0",
    r"\frac{1}{0}",
    r"2\frac34x",
    "",
    "2--3",
]


def form(text: str):
    return closed_form(normalise(text))


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal(a, b):
    assert same_closed(form(a), form(b)) is True


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different(a, b):
    assert same_closed(form(a), form(b)) is False


@pytest.mark.parametrize("text", UNSURE)
def test_unsure(text):
    assert form(text) is None


def test_e_and_pi_together_are_left_open():
    assert same_closed(form(r"e+\pi"), form(r"\pi+e")) is True
    assert same_closed(form(r"e+\pi"), form(r"5.86")) is None


def test_they_need_no_worker():
    ALGEBRA.stop()
    pairs = EQUAL + DIFFERENT
    got = math_reward(completions=[f"\\boxed{{{a}}}" for a, _ in pairs], answer=[b for _, b in pairs])
    assert got == [1.0] * len(EQUAL) + [0.0] * len(DIFFERENT) and ALGEBRA.pid is None


@pytest.mark.parametrize(
    "text",
    ["(x+y+z)^{16}" * 20, "((x+1)^{16}+y)^{16}", "9^{999}" * 50, r"\sqrt{99999989}" * 40, "(" * 180 + "x" + ")" * 180, "+".join("abcfghjk" * 20)],
)
def test_large_forms_end_soon(text):
    start = time.perf_counter()
    form(text)
    assert time.perf_counter() - start < 2


@settings(deadline=None, max_examples=200)
@given(st.recursive(
    st.integers(0, 20).map(str),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", r"\cdot "]), inner).map(lambda t: f"({t[0]}){t[1]}({t[2]})"),
        st.tuples(inner, inner).map(lambda t: rf"\frac{{{t[0]}}}{{{t[1]}}}"),
    ),
    max_leaves=8,
))  # fmt: skip
def test_sums_of_numbers_are_what_python_says(text):
    number = text.replace(r"\cdot ", "*")
    while r"\frac" in number:  # innermost first
        head, _, tail = number.rpartition(r"\frac")
        top = _group(tail)
        bottom = _group(tail[top:])
        number = f"{head}div({tail[1 : top - 1]},{tail[top + 1 : top + bottom - 1]}){tail[top + bottom :]}"
    try:
        want = eval(_fractions(number), {"Fraction": Fraction, "div": lambda a, b: a / b})
    except ZeroDivisionError:
        want = None
    got = closed_form(text)
    assert (rational(got) == want and same_closed(got, constant(want))) if want is not None else got is None


def _group(text: str) -> int:
    depth = 0
    for at, c in enumerate(text):
        depth += (c == "{") - (c == "}")
        if depth == 0:
            return at + 1
    raise AssertionError(text)


def _fractions(text: str) -> str:
    import re

    return re.sub(r"\d+", lambda m: f"Fraction({m[0]})", text)
