r"""`finished: true`: what is equal to the gold must be as worked out as the gold, and no honest form is refused."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from grpo_rlvr.rewards import make_math_reward
from grpo_rlvr.rewards.mathematics.finished import open_work
from grpo_rlvr.rewards.mathematics.formula_tree import tree
from grpo_rlvr.rewards.mathematics.radical_sums import MAX_RADICAND
from grpo_rlvr.rewards.mathematics.reading import read
from grpo_rlvr.rewards.mathematics.spelling import normalise
from grpo_rlvr.rewards.mathematics.values import Number
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import math_task

DEFAULT, FINISHED = make_math_reward(), make_math_reward(finished=True)
SQUARE_FREE = st.sampled_from((2, 3, 5, 6, 7, 10, 11, 13, 30))
WHOLE = st.integers(-999, 999)
FEW = settings(max_examples=60, deadline=None)
PIECES = [
    "1",
    "2",
    "12",
    "x",
    "+",
    "-",
    r"\cdot ",
    "/",
    "^",
    "(",
    ")",
    r"\sqrt{",
    r"\frac{",
    "}",
    "}{",
    r"\pi",
    "=",
    ",",
    r"\approx ",
    " cm",
    "%",
    r"\ln ",
]


def pays(reward, answer: str, gold: str) -> float | None:
    return reward([f"\\boxed{{{answer}}}"], answer=[gold])[0]


@FEW
@given(st.integers(0, 10**6), st.sampled_from([*math_task.NUMERIC, *math_task.LATEX]))
def test_each_honest_form_of_a_gold_is_paid(seed, maker):
    problem = maker(random.Random(seed))
    assert FINISHED.gold_problem({"answer": problem.gold}) is None
    for form in FINISHED.honest_forms(FINISHED.read_gold(problem.gold)):
        assert FINISHED([form], answer=[problem.gold]) == [1.0], form


@FEW
@given(WHOLE, WHOLE.filter(bool), SQUARE_FREE, st.integers(2, 9))
def test_honest_forms_of_radicals_and_fractions_are_paid(a, b, d, n):
    sign = "-" if b < 0 else "+"
    for gold, answer in (
        (f"{a}{sign}{abs(b)}\\sqrt{{{d}}}", f"{b}\\sqrt{d} + {a}" if d < 10 else f"{b}\\sqrt{{{d}}} + {a}"),
        (f"\\frac{{\\sqrt{{{d}}}}}{{{n}}}", f"\\frac{{1}}{{{n}}}\\cdot\\sqrt{{{d}}}"),
        (f"{b}\\pi", f"x = \\pi \\cdot {b}" if b > 0 else f"x = {b}\\pi"),
        (f"{n}x + {abs(b)}", f"{abs(b)}+{n}x"),
        (f"x^2-{n * n}", f"(x-{n})(x+{n})"),
        (f"{a}", f"{a} \\text{{ cm}}"),
    ):
        assert pays(DEFAULT, answer, gold) == 1.0 == pays(FINISHED, answer, gold), (answer, gold)


@FEW
@given(WHOLE, st.integers(1, 999), SQUARE_FREE, st.integers(2, 9))
def test_what_is_left_to_work_out_is_not_paid(a, b, d, n):
    for gold, answer in (
        (f"{a + b}", f"{a} + {b}"),
        (f"{a + b}", f"x = {a} + {b}"),
        (f"{b * n}", f"{b} \\cdot {n}"),
        (f"{b}", f"\\frac{{{b * n}}}{{{n}}}"),
        (f"{n}\\sqrt{{{d}}}", f"\\sqrt{{{n * n * d}}}"),
        (f"{n + b}\\sqrt{{{d}}}", f"{n}\\sqrt{{{d}}}+{b}\\sqrt{{{d}}}"),
        (f"{n**3}", f"{n}^3"),
        (f"{n + b}x", f"{n}x + {b}x"),
    ):
        assert pays(DEFAULT, answer, gold) == 1.0 and pays(FINISHED, answer, gold) == 0.0, (answer, gold)
        assert pays(FINISHED, f"{answer} = {gold}" if "x" not in answer else gold, gold) == 1.0


@FEW
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join), st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join))
def test_it_pays_the_gold_and_never_more_than_the_default(answer, gold):
    if DEFAULT.gold_problem({"answer": gold}) is None:
        assert pays(FINISHED, answer, gold) <= pays(DEFAULT, answer, gold)
        assert pays(FINISHED, gold, gold) == pays(DEFAULT, gold, gold)


@pytest.mark.parametrize(
    "text", [r"\ln 3", "f(x)", r"2\frac34x", "(" * 30 + "1" + ")" * 30, "x^{", r"\sqrt[0]{2}", r"\sqrt[100]{2}", r"\sqrt[x]{2}", "1" * 500]
)
def test_what_is_not_certainly_read_has_no_tree(text):
    assert tree(text) is None


def test_a_radicand_too_large_to_take_apart_is_no_fault():
    assert open_work(read(normalise(f"\\sqrt{{{4 * MAX_RADICAND}}}"))) == {"no numeral"}
    assert open_work(read(normalise(f"\\sqrt{{{MAX_RADICAND}}}"))) == {"root", "no numeral"}


def test_tenths_are_a_decimal_written_out():
    assert [pays(FINISHED, "75/100", gold) for gold in ("0.75", r"75\%", "3/4")] == [1.0, 1.0, 0.0]


def test_how_a_number_was_written_is_no_part_of_it():
    assert Number(1, "2/2") == Number(1, "1") and hash(Number(1, "2/2")) == hash(Number(1, "1"))
