"""Does the completion have the asked-for shape: one `<reasoning>` block, then one `<answer>` block, and nothing else."""

from __future__ import annotations

import unicodedata
from typing import Any

from grpo_rlvr.completions import strip_special_tokens
from grpo_rlvr.rewards.base import Reward

TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")
# Letters and symbols to Unicode, nothing to a reader: they must not make an empty block count as filled.
INVISIBLE = "\u2800\u3164\u115f\u1160\uffa0"


def is_blank(text: str) -> bool:
    """Whether a reader sees nothing: white space, control and zero-width characters only."""
    first = text.lstrip()[:1]
    if "!" <= first <= "~":  # the usual case, without a look at every character
        return False
    return all(c.isspace() or c in INVISIBLE or unicodedata.category(c) in ("Cc", "Cf", "Mn") for c in text)


def well_formed(text: str) -> bool:
    """Exactly one non-blank reasoning block, then one non-blank answer block, with only white space around them."""
    open_r, close_r, open_a, close_a = (text.find(tag) for tag in TAGS)
    if not 0 <= open_r < close_r < open_a < close_a or [text.count(tag) for tag in TAGS] != [1, 1, 1, 1]:
        return False
    reasoning, between, answer = text[open_r + len(TAGS[0]) : close_r], text[close_r + len(TAGS[1]) : open_a], text[open_a + len(TAGS[2]) : close_a]
    outside = text[:open_r] + between + text[close_a + len(TAGS[3]) :]
    return not outside.strip() and not is_blank(reasoning) and not is_blank(answer)


def tags_in_place(text: str) -> list[bool]:
    """For each of the four tags: it stands there once, after the tags before it; a closing tag closes a non-blank block."""
    placed: list[bool] = []
    reach = 0
    for i, tag in enumerate(TAGS):
        at = text.find(tag) if text.count(tag) == 1 else -1
        good = at >= reach
        if good and i % 2 == 1:
            good = placed[i - 1] and not is_blank(text[reach:at])
        if good:
            reach = at + len(tag)
        placed.append(good)
    return placed


class FormatReward(Reward):
    """1.0 for the exact structure, else 0.0 (or the share of it that is present, with `partial`)."""

    def __init__(self, name: str, prefilled: bool = False, partial: bool = False):
        super().__init__(name)
        self.prefilled, self.partial = prefilled, partial

    def score_one(self, text: str, gold: Any) -> float:
        text = strip_special_tokens(text)
        if self.prefilled:
            text = TAGS[0] + text
        if well_formed(text):
            return 1.0
        if not self.partial:
            return 0.0
        # The whole is one share more than its tags: all tags in place with text around them is not yet the format.
        # A tag that the template wrote is no merit of the model.
        placed = tags_in_place(text)[1:] if self.prefilled else tags_in_place(text)
        return sum(placed) / (len(placed) + 1)


def make_format_reward(prefilled: bool = False) -> FormatReward:
    """The strict format reward.

    Args:
        prefilled: the chat template has already written `<reasoning>`.
    """
    return FormatReward("format_reward", prefilled=prefilled)


def make_partial_format_reward(prefilled: bool = False) -> FormatReward:
    """Fifths of the format: one for each of the four tags that stands once and in order, one for the whole.

    A closing tag counts only if its block holds something, a repeated tag counts nothing, and 1.0 is given exactly
    where `format_reward` gives 1.0.

    Args:
        prefilled: the chat template has already written `<reasoning>`; then quarters, since its tag is not paid for.
    """
    return FormatReward("partial_format_reward", prefilled=prefilled, partial=True)
