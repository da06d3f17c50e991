"""Brackets in a formula: where one closes, whether all do, how deep they are nested."""

from __future__ import annotations


def matching_parenthesis(text: str, opening: int) -> int | None:
    """Index of the `)` that closes the `(` at `opening`."""
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return None


def balanced(text: str) -> bool:
    """Whether every brace is closed."""
    depth, i = 0, 0
    while i < len(text):
        if text[i] == "\\":
            i += 1
        elif text[i] in "{}":
            depth += 1 if text[i] == "{" else -1
            if depth < 0:
                return False
        i += 1
    return depth == 0


def nesting(text: str) -> tuple[int, int]:
    """How deep brackets are nested, and how deep exponents stand on exponents (`2^{2^{2}}` is 2)."""
    deepest = tower = 0
    stack: list[int] = []
    level = 0
    for i, c in enumerate(text):
        if c in "({[":
            stack.append(level)
            level += i > 0 and text[i - 1] == "^"
        elif c in ")}]" and stack:
            level = stack.pop()
        elif c == "^" and text[i + 1 : i + 2] not in ("{", "("):
            tower = max(tower, level + 1)
        deepest, tower = max(deepest, len(stack)), max(tower, level)
    return deepest, tower
