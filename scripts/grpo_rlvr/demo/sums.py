"""The quickstart's task: sums, answered in an `<answer>` tag, with or without worked column sums before it.

The oracle judges a completion by parsing it on its own; it shares no code with any reward, so that its labels can be
compared with a reward's verdicts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Sum:
    """x + y, both with the same number of digits."""

    x: int
    y: int

    @property
    def question(self) -> str:
        return f"{self.x}+{self.y}=?"

    @property
    def answer(self) -> str:
        return str(self.x + self.y)


def draw(rng: random.Random, digits: int, held_out: bool) -> Sum:
    """A random sum of the held-out tenth of all sums, or of the other nine tenths; the split depends on the sum alone."""
    low, high = 10 ** (digits - 1), 10**digits - 1
    while True:
        x, y = rng.randint(low, high), rng.randint(low, high)
        if (random.Random(x * 10_007 + y).random() < 0.1) == held_out:  # noqa: S311  (draws sums)
            return Sum(x, y)


def worked_steps(task: Sum, digits: int) -> str:
    """Column sums from the right, each with its carry: `7+5=12;3+4+1=08`."""
    steps, carry = [], 0
    for i, (a, b) in enumerate(zip(reversed(str(task.x)), reversed(str(task.y)), strict=True)):
        total = int(a) + int(b) + carry
        steps.append(f"{a}+{b}" + (f"+{carry}" if i else "") + f"={total:02d}")
        carry = total // 10
    return ";".join(steps[:digits])


def oracle(completion: str, answer: str) -> bool:
    """Whether the last `<answer>` after the reasoning holds exactly the right digits, by plain string search.

    Reasoning that was opened and not closed, or a last answer that was not closed, is no answer.
    """
    head, _, text = completion.rpartition("</reasoning>")
    if "<reasoning>" in text:
        return False
    before, opened, last = text.rpartition("<answer>")
    inside, closed, _ = last.partition("</answer>")
    return bool(opened and closed) and inside.strip() == answer
