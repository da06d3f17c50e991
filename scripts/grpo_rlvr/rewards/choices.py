"""Which option letter was chosen: in the answer tag, in a box, or declared in words after the reasoning."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from grpo_rlvr.completions import ANSWER_OPEN, after_reasoning, answer_span, has_box, strip_special_tokens
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.rewards.base import Reward, scalar_gold
from grpo_rlvr.rewards.choice_words import declared_letters, leading_letters

_GOLD = re.compile(r"[\s(\[{$*\"']*(?:\\[a-z]+\s*\{\s*\(?\s*)?([A-Za-z])[\s)\]}$*\"'.:]*")
# A whole answer that is one letter, in either case, and nothing else.
_ALONE = re.compile(
    r"[\s(\[{$*_\"'`]*(?:(?:the\s+)?(?:(?:correct|final|right|best)\s+)?(?:option|choice|answer)(?:\s+is)?\s*[:=]?\s*[(\[{$*_\"'`]*)?"
    r"([A-Za-z])[\s)\]}$*_\"'`.:!]*",
    re.I,
)
_LONGEST_ALONE = 40
# "the answer is b": a small letter at the end of its line is one of an option only behind such words.
_SMALL = re.compile(r"\b(?i:answer|option|choice)(?:\s{1,3}is)?\s{0,3}[:=]?\s{0,3}[(\[{$*_\"'`]{0,4}([a-z])[)\]}$*_\"'`.!]{0,6}[ \t]{0,3}(?:\n|$)")
_SEVERAL = re.compile(r"[\s,;/&|()\[\]{}\"'.]+|\band\b")

# A long solution has some ten thousand characters; reading a megabyte of letters word by word would take seconds.
MAX_LENGTH = 50_000


class ChoiceReward(Reward):
    r"""1.0 if exactly the gold's letter was chosen, else 0.0.

    The last complete `<answer>` decides, else the last `\boxed{}`, else `####`; only where there is none of these, what
    the text after the reasoning declares ("the answer is C", "I choose (C)", a line with the letter). Several different
    letters are no choice, nor is an answer tag or a box that was never closed. An answer stands at the end: in free text only
    the last `MAX_LENGTH` characters are read, and a tag or box with more than that holds no choice.
    """

    columns = ("answer",)
    correctness = True

    def __init__(self, name: str, multiple: bool = False):
        super().__init__(name)
        if not isinstance(multiple, bool):
            raise UserError("config", Problem(name, f"multiple is {multiple!r}", "use true or false"))
        self.multiple = multiple

    def read_gold(self, answer: Any) -> frozenset[str]:
        if isinstance(answer, (list, tuple)):
            if not answer:
                raise ValueError("the gold is an empty list")
            letters = frozenset(_gold_letter(item) for item in answer)
        elif self.multiple:
            pieces = [piece for piece in _SEVERAL.split(scalar_gold(answer)) if piece]
            if len(pieces) == 1 and pieces[0].isascii() and pieces[0].isalpha() and pieces[0].isupper() and len(set(pieces[0])) == len(pieces[0]):
                pieces = list(pieces[0])
            if not pieces:
                raise ValueError(f"the gold {answer!r} names no letter")
            letters = frozenset(_gold_letter(piece) for piece in pieces)
        else:
            letters = frozenset([_gold_letter(answer)])
        if len(letters) > 1 and not self.multiple:
            raise ValueError(f"the gold names {len(letters)} letters; set the option multiple: true")
        return letters

    def honest_forms(self, gold: frozenset[str]) -> list[str]:
        letters = sorted(gold)
        listed = ", ".join(letters)
        forms = [f"<answer>{listed}</answer>", f"\\boxed{{{listed}}}", f"\\boxed{{\\text{{{listed}}}}}", f"#### {listed}"]
        if len(letters) > 1:
            return [*forms, f"<answer>{' and '.join(letters)}</answer>", f"The answers are {' and '.join(letters)}."]
        return [*forms, f"<answer>({listed})</answer>", f"<answer>{listed.lower()}</answer>", f"The answer is {listed}.", f"**Answer: {listed}**"]

    def clearly_different(self, gold: frozenset[str], other: frozenset[str]) -> bool:
        return gold != other

    def score_one(self, text: str, gold: frozenset[str]) -> float:
        return 1.0 if chosen_letters(text, self.multiple) == gold else 0.0


def chosen_letters(text: str, multiple: bool = False) -> frozenset[str]:
    """The letters that a completion's text settles on, in capitals; empty if it settles on none."""
    marked = "<" in text or "\\" in text or "#" in text  # without these there is no tag, no box and no reasoning
    span = answer_span(text) if marked else None
    if span is not None:
        if span[1] - span[0] > MAX_LENGTH:
            return frozenset()
        content = _plain(strip_special_tokens(text[span[0] : span[1]]))
        return whole_answer(content, multiple) or leading_letters(content) or declared_letters(content)
    rest = after_reasoning(text) if marked else text
    if marked and (has_box(rest) or ANSWER_OPEN in rest):
        return frozenset()
    rest = strip_special_tokens(_plain(rest[-MAX_LENGTH:]))
    return whole_answer(rest, multiple) or declared_letters(rest) or frozenset(letter.upper() for letter in _SMALL.findall(rest))


def whole_answer(text: str, multiple: bool) -> frozenset[str]:
    """The letter of a text that is nothing but one, or with `multiple` a list of them; else empty."""
    if len(text) > _LONGEST_ALONE:
        return frozenset()
    if match := _ALONE.fullmatch(text):
        return frozenset(match[1].upper())
    if multiple:
        pieces = [piece for piece in _SEVERAL.split(text) if piece]
        joined = "".join(pieces)
        if joined.isascii() and joined.isalpha() and joined.isupper() and len(set(joined)) == len(joined) and len(pieces) in (1, len(joined)):
            return frozenset(joined)
    return frozenset()


def _plain(text: str) -> str:
    """Full-width, circled and styled letters as plain ones. One by one: normalising a run of accents takes the square of its length."""
    return text if text.isascii() else "".join(c if c.isascii() else unicodedata.normalize("NFKC", c) for c in text)


def _gold_letter(value: Any) -> str:
    text = scalar_gold(value)
    match = _GOLD.fullmatch(unicodedata.normalize("NFKC", text).strip())
    if match is None:
        raise ValueError(f"the gold {text[:40]!r} is not one option letter")
    return match[1].upper()


def make_choice_reward(multiple: bool = False) -> ChoiceReward:
    """The multiple-choice reward.

    Args:
        multiple: several letters may be right: the gold is a list or text such as "A,C", and exactly that set must be
            chosen. Without it (the default) a gold of several letters cannot be read.
    """
    return ChoiceReward("choice_reward", multiple=multiple)
