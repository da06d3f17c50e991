"""Is the final answer equal to the gold as mathematics: value and kind, not spelling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from grpo_rlvr.completions import box_span, final_answer, has_box
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.rewards.base import Reward, log, scalar_gold
from grpo_rlvr.rewards.mathematics.algebra_process import ALGEBRA, Question
from grpo_rlvr.rewards.mathematics.brackets import balanced, nesting
from grpo_rlvr.rewards.mathematics.comparison import Exact, NeedsAlgebra, same
from grpo_rlvr.rewards.mathematics.finished import finished
from grpo_rlvr.rewards.mathematics.reading import Reading, read
from grpo_rlvr.rewards.mathematics.spelling import MAX_LENGTH, normalise
from grpo_rlvr.rewards.mathematics.values import Number, Value

PERCENTS = ("fraction", "literal")
# No answer of a task nests deeper; what does is built to stall the parser or to fill the memory.
MAX_NESTING, MAX_TOWER = 40, 3


@dataclass(frozen=True)
class MathGold:
    """A gold that was read: its normalised text, its value, and how it was written."""

    text: str
    value: Value
    written: str


class MathReward(Reward):
    """1.0 if the final answer equals the gold, else 0.0; None where the gold cannot be read."""

    columns = ("answer",)
    correctness = True

    def __init__(self, name: str, percent: str = "fraction", decimal_comma: bool = False, cpu_s: float = 3.0, finished: bool = False):
        super().__init__(name)
        if percent not in PERCENTS:
            raise UserError("config", Problem(name, f"percent is {percent!r}", f"use one of {', '.join(PERCENTS)}"))
        if not isinstance(decimal_comma, bool):
            raise UserError("config", Problem(name, f"decimal_comma is {decimal_comma!r}", "use true or false"))
        if not isinstance(finished, bool):
            raise UserError("config", Problem(name, f"finished is {finished!r}", "use true or false"))
        if isinstance(cpu_s, bool) or not isinstance(cpu_s, (int, float)) or not 0 < cpu_s <= 60:
            raise UserError("config", Problem(name, f"cpu_s is {cpu_s!r}", "use a number of seconds above 0, at most 60"))
        self.finished = finished
        self.reading, self.cpu_s = Reading(percent, decimal_comma), float(cpu_s)

    def read_gold(self, answer: Any) -> MathGold:
        return _read_gold(scalar_gold(answer), self.reading)

    def honest_forms(self, gold: MathGold) -> list[str]:
        forms = [f"\\boxed{{{gold.written}}}", f"<answer>{gold.written}</answer>"]
        if "$" not in gold.written:
            forms.append(f"<answer>\n${gold.written}$\n</answer>")
        return forms + [f"\\boxed{{{number}}}" for number in _spellings(gold)]

    def clearly_different(self, gold: MathGold, other: MathGold) -> bool:
        return isinstance(gold.value, Number) and isinstance(other.value, Number) and gold.value != other.value

    def score_texts(self, texts: list[str], golds: list[MathGold]) -> list[float | None]:
        # A group answers one question, mostly with the same few answers: each (gold, answer) is compared once.
        verdicts: dict[tuple[str, str], bool | None] = {}
        asked: dict[tuple[str, str], Question] = {}
        pairs: list[tuple[str, str] | None] = []
        for text, gold in zip(texts, golds, strict=True):
            answer = self._answer(text)
            pair = (gold.text, answer) if answer else None
            pairs.append(pair)
            if pair is None or pair in verdicts or pair in asked:
                continue
            verdict = self._without_algebra(answer, gold)
            if isinstance(verdict, Question):
                asked[pair] = verdict
            else:
                verdicts[pair] = verdict
        if asked:
            verdicts.update(zip(asked, ALGEBRA.ask(list(asked.values()), self.cpu_s), strict=True))
        if self.finished:
            golds_of = {gold.text: gold for gold in golds}
            verdicts = {pair: verdict and self._worked_out(pair[1], golds_of[pair[0]]) for pair, verdict in verdicts.items()}
        found = [False if pair is None else verdicts[pair] for pair in pairs]
        return [None if verdict is None else float(verdict) for verdict in found]

    def _answer(self, text: str) -> str | None:
        """The final answer as it stands; None where there is none, or one too long to be any gold's."""
        try:
            answer = final_answer(text)
        except Exception as exc:  # whatever a model writes is a score
            log.warning("%s: a final answer could not be found (%s); it scores 0", self.__name__, type(exc).__name__)
            return None
        return answer if answer and len(answer) <= MAX_LENGTH else None

    def _worked_out(self, answer: str, gold: MathGold) -> bool:
        """Whether an answer that is equal to the gold is as worked out; True also where that cannot be told."""
        try:
            answer = normalise(answer)
            return answer == gold.text or finished(read(answer, self.reading), gold.value)
        except Exception as exc:  # it was right without this question
            log.warning("%s: whether an answer is worked out could not be told (%s); it counts as such", self.__name__, type(exc).__name__)
            return True

    def _without_algebra(self, answer: str, gold: MathGold) -> bool | Question:
        """The verdict on a final answer, or the question for the algebra worker."""
        try:
            answer = normalise(answer)
            if not answer:
                return False
            if answer == gold.text:
                return True
            deep, tower = nesting(answer)
            if deep > MAX_NESTING or tower > max(MAX_TOWER, nesting(gold.text)[1]) or not balanced(answer):
                return False
            return same(gold.value, read(answer, self.reading), Exact())
        except NeedsAlgebra:
            return Question(gold.text, answer, self.reading.percent, self.reading.decimal_comma)
        except (ValueError, RecursionError):
            return False
        except Exception as exc:  # whatever a model writes is a score
            log.warning("%s: an answer could not be read (%s); it scores 0", self.__name__, type(exc).__name__)
            return False


def _spellings(gold: MathGold) -> list[str]:
    """A plain number in the other ways that are exactly equal: thousands set apart, a fraction as decimal and the other way round."""
    if not isinstance(gold.value, Number) or "%" in gold.text:
        return []
    number = gold.value.value
    if max(abs(number.numerator), number.denominator) >= 10**9:
        return []
    if number.denominator == 1:
        return [f"{number.numerator:,}".replace(",", "\\,")] if abs(number) >= 1000 else []
    places = next((k for k in range(1, 7) if 10**k % number.denominator == 0), None)
    decimal = [] if places is None else [f"{'-' * (number < 0)}{abs(number.numerator) * 10**places // number.denominator / 10**places:.{places}f}"]
    sign = "-" if number < 0 else ""
    return [f"{sign}\\frac{{{abs(number.numerator)}}}{{{number.denominator}}}", *decimal]


@lru_cache(maxsize=4096)
def _read_gold(text: str, reading: Reading) -> MathGold:
    # Worked solutions as gold: the part that final_answer would take from a completion.
    if "####" in text:
        text = text.rpartition("####")[2]
    elif has_box(text):
        span = box_span(text)
        if span is None:
            raise ValueError("the gold's last box is not closed")
        text = text[span[0] : span[1]]
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the gold is {len(text)} characters long; {MAX_LENGTH} are the limit")
    normal = normalise(text)
    if not normal:
        raise ValueError("the gold is empty")
    if not balanced(normal):
        raise ValueError(f"the gold has a brace that is not closed: {text[:60]!r}")
    return MathGold(normal, read(normal, reading), text.strip())


def make_math_reward(percent: str = "fraction", decimal_comma: bool = False, cpu_s: float = 3.0, finished: bool = False) -> MathReward:
    """The math reward.

    The final answer is the last complete `<answer>` after the reasoning, else the last `\\boxed`, else what follows
    `####`. Numbers are compared exactly, with no rounding: 3.14 is not pi. A unit that is missing on one side is
    allowed, a different one is not. `3, 8` is the set {3, 8}, not the pair (3, 8). An inequality equals its interval.

    Args:
        percent: "fraction" (35% is 0.35) or "literal" (the sign is only a label: 35% is 35).
        decimal_comma: read "2,75" as 2.75. Without it a comma separates thousands or list items.
        cpu_s: seconds of computing that the algebra of one answer may take; what takes longer scores 0.
        finished: the answer must be as worked out as the gold: no `\\sqrt{98}` for `7\\sqrt{2}`, no `10 + 10` for 20, no `4/6` for `2/3`. Without it
            any expression of the same value is right, also the one that the question asks to work out.
    """
    return MathReward("math_reward", percent=percent, decimal_comma=decimal_comma, cpu_s=cpu_s, finished=finished)
