"""Whether two answers may mean the same: the probes must not call an answer wrong that is right.

Independent of the reward under test. What the algebra cannot decide counts as the same.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from grpo_rlvr.errors import GrpoRlvrError

NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+")
# Longer digit strings are left to the text rule: arithmetic on them costs more than it shows.
MAX_DIGITS = 60
MAX_ALGEBRA = 400  # characters; longer answers are told apart by their letters alone
ALGEBRA_CPU_S = 0.5
KEPT = 1000  # characters; longer texts are not kept for a second comparison
LONG_NAME, ALIKE = 60, 0.8
_NAME_WORD, _SMALL = re.compile(r"[^\W_]+"), {"the", "of", "and", "a", "an", "de", "la"}
_FRACTION = re.compile(r"\\[dt]?frac\{(-?\d+)\}\{(-?\d+)\}|(-?\d+)/(-?\d+)")
_WRAPPER = re.compile(r"\\(?:boxed|fbox|text|mathrm)\{([^{}]*)\}")
_COMMAND = re.compile(r"\\(?:left|right|big|Big|displaystyle|text|mathrm|[,;:! ])|(?<=\\)[dt](?=frac)")
_WORDS = re.compile(r"[^\W\d_]*(?:[\s.,'\-&][^\W\d_]*)*")


def differs(new: str, right: Sequence[str]) -> bool:
    """Neither the text nor the number of any of `right`."""
    return all(plain(new) != plain(r) and not values(new) & values(r) for r in right)


def clearly_differs(new: str, right: Sequence[str]) -> bool:
    """Other letters and digits than each of `right` ('x+1' and '1+x' may be equal), and another value as mathematics."""
    return all(_letters(new) != _letters(r) for r in right) and not any(same_value(new, r) for r in right)


def may_name_the_same(a: str, b: str) -> bool:
    """Whether two answers in words may be names of one thing: an abbreviation, initials, the same words or nearly the same letters."""
    if max(len(a), len(b)) > LONG_NAME:
        return False
    words = [[w for w in _NAME_WORD.findall(plain_words(t)) if w not in _SMALL] for t in (a, b)]
    short, long = sorted(("".join(w) for w in words), key=len)
    if len(short) < 2 or not short.isalpha() or not long.isalpha():
        return False
    initials = ["".join(w[0] for w in each) for each in words if len(each) > 1]
    if long.startswith(short) or any(i.startswith(short) or short.startswith(i) for i in initials if len(i) > 1):
        return True
    if set(words[0]) <= set(words[1]) or set(words[1]) <= set(words[0]):
        return True
    return len(short) > 3 and difflib.SequenceMatcher(None, short, long).ratio() > ALIKE


def plain_words(text: str) -> str:
    """Lower case, without accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c)).replace(".", "")


@lru_cache(maxsize=20_000)
def same_value(new: str, right: str) -> bool:
    """Whether the math reward takes the two for equal, or cannot say. False for words and for texts too long for algebra."""
    if max(len(new), len(right)) > MAX_ALGEBRA or (_WORDS.fullmatch(plain(new)) and _WORDS.fullmatch(plain(right))):
        return False
    from grpo_rlvr.rewards.mathematics.reward import make_math_reward

    reward = make_math_reward(cpu_s=ALGEBRA_CPU_S)
    if "<answer>" in new or reward.gold_problem({"answer": right}):
        return False
    try:
        return reward(completions=[f"<answer>{new}</answer>"], answer=[right]) != [0.0]
    except GrpoRlvrError:  # no math-verify on this machine: the letters must do
        return False


def plain(text: str) -> str:
    """Without wrappers, dollar signs, white space and case."""
    return _plain(text) if len(text) <= KEPT else _plain.__wrapped__(text)


@lru_cache(maxsize=20_000)
def _plain(text: str) -> str:
    text = _WRAPPER.sub(r"\1", text)
    return "".join(text.replace("$", "").replace("\N{MINUS SIGN}", "-").split()).casefold()


def values(text: str) -> frozenset[Fraction]:
    """The numbers a text may stand for: a percentage is two of them; no number gives an empty set."""
    return _values(text) if len(text) <= KEPT else frozenset()


@lru_cache(maxsize=20_000)
def _values(text: str) -> frozenset[Fraction]:
    text = plain(text).rstrip(".")
    percent = text.endswith("%")
    text = text.rstrip("\\%")
    if len(text) > 2 * MAX_DIGITS:
        return frozenset()
    try:
        if match := _FRACTION.fullmatch(text):
            top, bottom = (g for g in match.groups() if g is not None)
            value = Fraction(int(top), int(bottom))
        else:
            value = Fraction(text.replace(",", "")) if "e" not in text else Fraction(str(float(text)))
    except (ValueError, ZeroDivisionError, OverflowError):
        return frozenset()
    return frozenset({value, value / 100} if percent else {value})


def _letters(text: str) -> str:
    return _sorted_letters(text) if len(text) <= KEPT else plain(text)


@lru_cache(maxsize=20_000)
def _sorted_letters(text: str) -> str:
    return "".join(sorted(filter(str.isalnum, plain(_COMMAND.sub("", text)))))
