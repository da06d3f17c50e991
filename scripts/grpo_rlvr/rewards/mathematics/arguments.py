"""Arguments of macros: TeX takes the next token where there are no braces, other readers want braces."""

from __future__ import annotations

import re

from grpo_rlvr.completions import matching_brace
from grpo_rlvr.rewards.mathematics.brackets import matching_parenthesis

_MACRO = re.compile(r"\\([A-Za-z]+)")


def with_braces(text: str) -> str:
    r"""Braces around single-token arguments: `\frac12`, `\sqrt2`, `x^10`, `x_1`, and around parentheses in `\sqrt(3)`, `x^(1/2)`."""
    out, i = [], 0
    while i < len(text):
        match = _MACRO.match(text, i) if text[i] == "\\" else None
        if match and match[1] in ("frac", "sqrt", "binom"):
            out.append(match[0])
            i = match.end()
            if match[1] == "sqrt":
                bracket = re.match(r"\s*(\[[^\[\]]*\])", text[i:])
                if bracket:
                    out.append(bracket[1])
                    i += bracket.end()
            for _ in range(1 if match[1] == "sqrt" else 2):
                argument, i = _argument(text, i, parentheses=match[1] == "sqrt")
                out.append(argument)
        elif match:
            out.append(match[0])
            i = match.end()
        elif text[i] in "^_":
            out.append(text[i])
            number = re.match(r"\s*([-+]?\d+)", text[i + 1 :])
            if number and text[i] == "_" and out[-2:-1] == ["\\log"] and not re.match(r"\s*[\w\\({]", text[i + 1 + number.end() :]):
                # As TeX reads it: the base is one digit where the argument would be missing otherwise.
                digit = number.end() - len(number[1]) + 1
                out.append(f"{{{text[i + digit]}}}")
                i += 1 + digit
            elif number:
                out.append(f"{{{number[1]}}}")
                i += 1 + number.end()
            else:
                argument, i = _argument(text, i + 1, parentheses=text[i] == "^")
                out.append(argument)
        else:
            out.append(text[i])
            i += 1
    return "".join(out)


def _argument(text: str, i: int, parentheses: bool) -> tuple[str, int]:
    while i < len(text) and text[i].isspace():
        i += 1
    if i >= len(text):
        return "", i
    if text[i] == "{":
        close = matching_brace(text, i)
        return ("{" + with_braces(text[i + 1 : close]) + "}", close + 1) if close is not None else (text[i], i + 1)
    if text[i] == "(" and parentheses:
        close = matching_parenthesis(text, i)
        if close is not None:
            return "{" + with_braces(text[i + 1 : close]) + "}", close + 1
    match = _MACRO.match(text, i)
    if match:
        end = match.end()
        if match[1] in ("frac", "sqrt"):
            inner = with_braces(text[i:])  # a macro with arguments of its own: take it whole
            end = _macro_end(inner)
            return "{" + inner[:end] + "}" + inner[end:], len(text)
        return "{" + match[0] + "}", end
    if text[i] in "}])":
        return "", i
    return "{" + text[i] + "}", i + 1


def _macro_end(text: str) -> int:
    i = _MACRO.match(text).end()
    if i < len(text) and text[i] == "[":
        i = text.find("]", i) + 1 or i
    while i < len(text) and text[i] == "{":
        close = matching_brace(text, i)
        if close is None:
            break
        i = close + 1
    return i
