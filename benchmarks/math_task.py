"""A batch of GRPO shape with known truth: prompts x completions, half numeric golds and half LaTeX, right and wrong by construction.

Every gold is built from integers, every right answer is another honest way to write it, every wrong one has other integers in it. No tool that
is measured takes part in saying what is right. All answers are boxed once, as TRL's reward asks for, and golds stand in dollars, as
math-verify asks for.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

# Square-free, so that a*sqrt(b) is equal to c*sqrt(d) only for the same integers.
RADICANDS = (2, 3, 5, 6, 7, 10, 11, 13)
SENTENCES = (
    "Let us write down what is given and what is asked for.",
    "We substitute the second equation into the first and collect the terms.",
    "The two sides agree after the common factor is taken out.",
    "This step uses that the sequence starts at the first term, not at zero.",
    "A quick check with small values shows no contradiction so far.",
    "Multiplying both sides by the denominator removes the fraction.",
    "There are as many cases as there are ways to choose the first element.",
    "By symmetry the remaining cases contribute the same amount.",
)


@dataclass(frozen=True)
class Problem:
    """A gold, other spellings of it, and answers that differ from it."""

    kind: str
    gold: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class Batch:
    """Aligned lists; `truth[i]` says whether completion i answers `golds[i]` rightly."""

    completions: list[str]
    golds: list[str]
    truth: list[bool]
    kinds: list[str]


def make_batch(seed: int, prompts: int = 256, group: int = 8) -> Batch:
    """The same batch for the same arguments. Completions of one prompt stand together; about half of them are right."""
    rng = random.Random(seed)
    batch = Batch([], [], [], [])
    for index in range(prompts):
        makers = NUMERIC if index % 2 == 0 else LATEX
        problem = rng.choice(makers)(rng)
        skill = rng.random()  # of this policy on this prompt
        for _ in range(group):
            correct = rng.random() < skill
            batch.completions.append(_completion(rng, rng.choice(problem.right if correct else problem.wrong)))
            batch.golds.append(f"${problem.gold}$")
            batch.truth.append(correct)
            batch.kinds.append(problem.kind)
    return batch


def _completion(rng: random.Random, answer: str) -> str:
    work = [rng.choice(SENTENCES) for _ in range(rng.randint(3, 8))]
    a, b = rng.randint(2, 99), rng.randint(2, 99)
    work.insert(rng.randrange(len(work)), f"Here ${a} \\cdot {b} = {a * b}$ is used.")
    ending = rng.choice(("Therefore the final answer is $\\boxed{%s}$.", "The answer is \\boxed{%s}.", "So we get\n\\[\\boxed{%s}\\]"))
    return f"<think>{' '.join(work)}</think>\n{ending % answer}"


# ---- numbers


def integer(rng: random.Random) -> Problem:
    n = rng.choice((-1, 1)) * rng.randint(1, 999)
    return Problem("integer", str(n), (str(n), str(n), f"{n}.0"), tuple(str(k) for k in (n + 1, -n, 2 * n, n - 10)))


def thousands(rng: random.Random) -> Problem:
    n = rng.randint(1001, 9_999_999)
    return Problem("thousands", str(n), (str(n), f"{n:,}"), (str(n + 1), f"{n + 1000:,}", str(n * 10)))


def decimal(rng: random.Random) -> Problem:
    whole, part = rng.randint(0, 99), rng.randint(1, 9)
    fraction = f"\\frac{{{10 * whole + part}}}{{10}}"
    return Problem("decimal", f"{whole}.{part}", (f"{whole}.{part}", f"{whole}.{part}0", fraction), (f"{whole + 1}.{part}", f"{whole}.0{part}"))


def quotient(rng: random.Random) -> Problem:
    top, bottom = _fraction(rng)
    wrong = (f"{bottom}/{top}", f"\\frac{{{top + bottom}}}{{{bottom}}}", f"\\frac{{{top}}}{{{bottom + top}}}")
    return Problem("quotient", f"{top}/{bottom}", (f"{top}/{bottom}", f"\\frac{{{top}}}{{{bottom}}}", f"\\frac{{{2 * top}}}{{{2 * bottom}}}"), wrong)


# ---- LaTeX


def fraction(rng: random.Random) -> Problem:
    top, bottom = _fraction(rng)
    right = (f"\\frac{{{top}}}{{{bottom}}}", f"\\dfrac{{{top}}}{{{bottom}}}", f"{top}/{bottom}")
    return Problem(
        "fraction", right[0], right, (f"\\frac{{{bottom}}}{{{top}}}", f"-\\frac{{{top}}}{{{bottom}}}", f"\\frac{{{top}}}{{{bottom + top}}}")
    )


def surd(rng: random.Random) -> Problem:
    a, b = rng.randint(2, 12), rng.choice(RADICANDS)
    other = rng.choice([r for r in RADICANDS if r != b])
    right = (f"{a}\\sqrt{{{b}}}", f"\\sqrt{{{a * a * b}}}", f"{a} \\cdot \\sqrt{{{b}}}")
    return Problem("surd", right[0], right, (f"{a + 1}\\sqrt{{{b}}}", f"{a}\\sqrt{{{other}}}", f"\\sqrt{{{a * b + a * a * b}}}", str(a * b)))


def half_surd(rng: random.Random) -> Problem:
    top, bottom = _fraction(rng)
    b = rng.choice(RADICANDS)
    right = (
        f"\\frac{{{top}\\sqrt{{{b}}}}}{{{bottom}}}",
        f"\\frac{{{top}}}{{{bottom}}}\\sqrt{{{b}}}",
        f"\\frac{{{top * b}}}{{{bottom}\\sqrt{{{b}}}}}",
    )
    return Problem("half_surd", right[0], right, (f"\\frac{{{top}\\sqrt{{{b}}}}}{{{bottom + 1}}}", f"\\frac{{{top}}}{{{bottom}}}"))


def circle(rng: random.Random) -> Problem:
    a = rng.randint(2, 60)
    return Problem(
        "circle", f"{a}\\pi", (f"{a}\\pi", f"\\pi \\cdot {a}", f"\\frac{{{2 * a}\\pi}}{{2}}"), (f"{a + 1}\\pi", str(a), f"\\frac{{{a}\\pi}}{{2}}")
    )


def polynomial(rng: random.Random) -> Problem:
    a, b, c = rng.randint(2, 9), rng.randint(1, 9), rng.randint(1, 20)
    right = (f"{a}x^2+{b}x+{c}", f"{a}x^{{2}} + {b}x + {c}", f"{c}+{b}x+{a}x^2")
    return Problem("polynomial", right[0], right, (f"{a}x^2+{b}x-{c}", f"{a}x^2+{b + 1}x+{c}", f"{a + 1}x^2+{b}x+{c}"))


def product(rng: random.Random) -> Problem:
    a, b = rng.sample(range(1, 10), 2)
    right = (f"(x+{a})(x-{b})", f"(x-{b})(x+{a})", f"x^2{a - b:+d}x-{a * b}" if abs(a - b) > 1 else f"(x - {b})(x + {a})")
    return Problem("product", right[0], right, (f"(x+{a})(x+{b})", f"(x-{a})(x+{b})", f"(x+{a + 1})(x-{b})"))


def pair(rng: random.Random) -> Problem:
    a, b = rng.sample(range(-20, 21), 2)
    return Problem("pair", f"({a}, {b})", (f"({a}, {b})", f"({a},{b})", f"\\left({a}, {b}\\right)"), (f"({b}, {a})", f"({a}, {b + 1})"))


def interval(rng: random.Random) -> Problem:
    low, width = rng.randint(-9, 9), rng.randint(2, 9)
    high = low + width
    right = (f"[{low}, {high})", f"[{low},{high})", f"\\left[{low}, {high}\\right)")
    return Problem("interval", right[0], right, (f"[{low}, {high}]", f"({low}, {high})", f"[{low}, {high + 1})"))


def logarithm(rng: random.Random) -> Problem:
    a, b = rng.sample((2, 3, 5, 7, 11, 13), 2)
    return Problem(
        "logarithm", f"\\ln {a * b}", (f"\\ln {a * b}", f"\\ln({a * b})", f"\\ln {a} + \\ln {b}"), (f"\\ln {a * b + 1}", f"\\ln {a}", str(a * b))
    )


def cube_root(rng: random.Random) -> Problem:
    a, b = rng.randint(2, 9), rng.choice(RADICANDS)
    right = (f"{a}\\sqrt[3]{{{b}}}", f"\\sqrt[3]{{{a**3 * b}}}")
    return Problem("cube_root", right[0], right, (f"{a + 1}\\sqrt[3]{{{b}}}", f"{a}\\sqrt{{{b}}}", f"\\sqrt[3]{{{a * b}}}"))


def wave(rng: random.Random) -> Problem:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    right = (f"{a}\\sin({b}x)", f"{a} \\sin {b}x")
    return Problem("wave", right[0], right, (f"{a}\\cos({b}x)", f"{a + 1}\\sin({b}x)", f"{a}\\sin({b + 1}x)"))


def _fraction(rng: random.Random) -> tuple[int, int]:
    """A proper fraction in lowest terms; neither part is 1, so that its inverse and its parts are other numbers."""
    bottom = rng.choice((3, 5, 7, 11, 13, 17, 19, 23))
    return rng.randint(2, bottom - 1), bottom


NUMERIC: tuple[Callable[[random.Random], Problem], ...] = (integer, integer, thousands, decimal, quotient)
# The last three need a computer algebra system.
LATEX: tuple[Callable[[random.Random], Problem], ...] = (
    fraction, fraction, surd, half_surd, circle, polynomial, product, pair, interval, logarithm, cube_root, wave,
)  # fmt: skip
