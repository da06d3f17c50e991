"""Cuts a formula at what stands outside of all brackets: commas, and/or, relation signs, unions."""

from __future__ import annotations

import re

RELATIONS = {
    "=": "=", ":=": "=", "\\approx": "~", "\\in": "in", "<": "<", ">": ">", "\\le": "<=", "\\ge": ">=", "\\ne": "!=", "\\equiv": "other",
    "\\sim": "other",
    "\\to": "other", "\\notin": "other", "\\subset": "other", "\\subseteq": "other", "\\cong": "other", "\\propto": "other",
}  # fmt: skip
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|:=|.", re.S)
_WORD = re.compile(r"(?<=\s)(and|or)(?=\s)")


def _tokens(text: str):
    """(start, token, depth before it) of every token; brackets of all kinds count alike, since intervals mix them."""
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in (")", "]", "}", "\\}", "\\rangle"):
            depth -= 1
        yield match.start(), token, depth
        if token in ("(", "[", "{", "\\{", "\\langle"):
            depth += 1


def split_top(text: str, mark: str) -> list[str]:
    """The pieces of `text` between the outermost `mark` tokens, stripped."""
    pieces, start = [], 0
    for at, token, depth in _tokens(text):
        if token == mark and depth == 0:
            pieces.append(text[start:at].strip())
            start = at + len(mark)
    return [*pieces, text[start:].strip()]


def split_separators(text: str) -> tuple[list[str], set[str]]:
    """The pieces between outermost commas, semicolons and the words and/or; and which of the words were there."""
    if not any(mark in text for mark in (",", ";", " and ", " or ")):
        return [text], set()
    words = {m.start(): m[1] for m in _WORD.finditer(text)}
    pieces, used, start = [], set(), 0
    for at, token, depth in _tokens(text):
        word = words.get(at)
        if depth == 0 and (token in (",", ";") or word):
            pieces.append(text[start:at].strip())
            start = at + len(word or token)
            if word:
                used.add(word)
    pieces.append(text[start:].strip())
    return [p for p in pieces if p], used


def split_relation(text: str) -> tuple[list[str], list[str]]:
    """The sides of a relation or chain of relations, and the operators between them as =, ~ (about), in, <, <=, >, >=, != or other."""
    sides, operators, start = [], [], 0
    for at, token, depth in _tokens(text):
        if depth == 0 and token in RELATIONS:
            sides.append(text[start:at].strip())
            operators.append(RELATIONS[token])
            start = at + len(token)
    return [*sides, text[start:].strip()], operators


def enclosed(text: str, left: str, right: str) -> bool:
    """Whether the bracket that opens the text is closed by the one that ends it."""
    if len(text) < len(left) + len(right) or not (text.startswith(left) and text.endswith(right)):
        return False
    if left in ("]",) or right in ("[",):  # intervals in the French way
        return "," in text or ";" in text
    last = len(text) - len(right)
    return all(depth > 0 or at in (0, last) for at, _, depth in _tokens(text) if at < last)
