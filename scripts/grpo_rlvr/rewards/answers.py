"""Is the text in the answer tag the gold, letter by letter."""

from __future__ import annotations

import unicodedata
from typing import Any

from grpo_rlvr.completions import after_reasoning, strip_special_tokens, tag_span
from grpo_rlvr.rewards.base import Reward, scalar_gold

MAX_COMPOSED = 4  # the longest decomposition of one character


def normal_text(text: str) -> str:
    """Unicode NFC, special tokens and outer white space off, runs of white space as one space.

    Case, punctuation and compatibility characters stay: a superscript two is not the text "2".
    """
    return " ".join(unicodedata.normalize("NFC", strip_special_tokens(text)).split())


class ExactReward(Reward):
    """1.0 if the last complete `<answer>` after the reasoning equals the gold after `normal_text`, else 0.0."""

    columns = ("answer",)
    correctness = True

    def read_gold(self, answer: Any) -> str:
        text = normal_text(scalar_gold(answer))
        if not text:
            raise ValueError("the gold is empty")
        return text

    def honest_forms(self, gold: str) -> list[str]:
        return [f"<answer>{gold}</answer>", f"<answer> {gold}\t</answer>", f"<answer>\n{gold}\n</answer>"]

    def clearly_different(self, gold: str, other: str) -> bool:
        return gold != other

    def score_one(self, text: str, gold: str) -> float:
        text = after_reasoning(text)
        span = tag_span(text)
        if span is None:
            return 0.0
        answer = strip_special_tokens(text[span[0] : span[1]])
        if answer == gold:
            return 1.0
        if answer.isascii():
            return 1.0 if " ".join(answer.split()) == gold else 0.0
        words = answer.split()
        # No character comes from more than four, and normalising takes a time that grows with the square of a run of accents.
        if sum(map(len, words)) > MAX_COMPOSED * len(gold):
            return 0.0
        return 1.0 if normal_text(" ".join(words)) == gold else 0.0


def make_correctness_reward() -> ExactReward:
    """The exact-match reward; it has no options."""
    return ExactReward("correctness_reward")
