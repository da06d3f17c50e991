"""Where an accepted completion states its answer, so that another can be put there, or a second one beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from grpo_rlvr.completions import ANSWER_CLOSE, ANSWER_OPEN, REASONING_TAGS, answer_span, has_box, tag_span
from grpo_rlvr.inspection.equality import differs, plain
from grpo_rlvr.inspection.mutate import LONG, find_gold

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_TAGS = re.compile(rf"</?(?:{'|'.join(REASONING_TAGS)})>")


@dataclass(frozen=True)
class Shape:
    """A completion as head + left + answer + right + tail; left + answer + right is the statement (a tag, a box, a line).

    `closed`: whether something has to follow the answer for it to be whole.
    """

    head: str
    left: str
    answer: str
    right: str
    tail: str
    closed: bool

    def block(self, answer: str) -> str:
        """The statement of another answer."""
        return self.left + answer + self.right

    def text(self, answer: str) -> str:
        """The whole completion with another answer."""
        return self.head + self.block(answer) + self.tail

    def twice(self, first: str, second: str) -> str:
        """Two statements, one after the other."""
        return f"{self.head}{self.block(first)}\n{self.block(second)}{self.tail}"


def shape_of(text: str, answers: Sequence[str]) -> Shape | None:
    """The shape of a completion; None where it is not known what its answer is."""
    answers = [a for a in answers if plain(a) and len(a) <= LONG]
    span = answer_span(text)
    if span is not None:
        start, end, closed = _statement(text, span)
        a, b = span
        if differs(text[a:b], answers):
            place = next((found[-1] for answer in answers if (found := find_gold(text[a:b], answer))), None)
            if place is not None:
                a, b = a + place[0], a + place[1]
        return Shape(text[:start], text[start:a], text[a:b], text[b:end], text[end:], closed)
    for answer in answers:
        if found := find_gold(text, answer):
            a, b = found[-1]
            start, end = text.rfind("\n", 0, a) + 1, text.find("\n", b)
            end = len(text) if end < 0 else end
            return Shape(text[:start], text[start:a], text[a:b], text[b:end], text[end:], False)
    return None


def without_reasoning_tags(text: str) -> str:
    return _TAGS.sub("", text)


def _statement(text: str, span: tuple[int, int]) -> tuple[int, int, bool]:
    """Bounds of the tag, box or line around an answer, and whether it has to be closed."""
    a, b = span
    opened, close = text.rfind(ANSWER_OPEN, 0, a), text.find(ANSWER_CLOSE, b)
    if tag_span(text) is not None and opened >= 0 and close >= 0:
        return opened, close + len(ANSWER_CLOSE), True
    if has_box(text):
        start = max((m.start() for m in _BOX.finditer(text, 0, a)), default=a)
        close = text.find("}", b)
        return start, (close + 1 if close >= 0 else b), True
    start = text.rfind("####", 0, a)
    return (start if start >= 0 else a), b, False
