"""Wrong versions of a right completion: the same text with another final answer."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

from grpo_rlvr.completions import answer_span, completion_text

# Longer digit strings are left to the text rule: arithmetic on them costs more than it shows.
_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+")
_MAX_DIGITS = 60
_FRACTION = re.compile(r"\\[dt]?frac\{(-?\d+)\}\{(-?\d+)\}|(-?\d+)/(-?\d+)")
_WRAPPER = re.compile(r"\\(?:boxed|fbox|text|mathrm)\{([^{}]*)\}")


def mutants(completion: str | list[dict], golds: Sequence[str], other_golds: Sequence[str]) -> list[tuple[str | list[dict], str, str]]:
    """Completions like this one with a wrong final answer: (completion, old answer, new answer).

    Args:
        golds: every reference value of this sample, as text; no mutant equals one of them in text or value.
        other_golds: reference values of other rows, tried in this order for answers that are not one number.
    """
    text = completion_text(completion)
    span = answer_span(text) or _last_number_span(text)
    if span is None:
        return []
    start, end = span
    answer = text[start:end]
    return [(_with_text(completion, text[:start] + new + text[end:]), answer, new) for new in wrong_answers(answer, golds, other_golds)]


def wrong_answers(answer: str, golds: Sequence[str], other_golds: Sequence[str]) -> list[str]:
    """Other answers, none of them equal to `answer` or to a gold.

    One number n in the answer becomes n + 1, n + 7 and -n - 1, written the same way. Other text becomes up to two other golds, or has its
    last number changed, or gets an 'x'.
    """
    right = [answer, *golds]
    numbers = list(_NUMBER.finditer(answer))
    if len(numbers) == 1 and len(numbers[0].group()) <= _MAX_DIGITS:
        return [new for new, number in _changed(answer, numbers[0]) if _differs(new, right) and _differs(number, golds)]
    new = [gold for gold in other_golds if _differs(gold, right) and _letters_differ(gold, right)][:2]
    if new:
        return new
    if numbers and len(numbers[-1].group()) <= _MAX_DIGITS:
        return [text for text, _ in _changed(answer, numbers[-1]) if _differs(text, right)][:1]
    return [answer.rstrip() + "x"]


def invalid_json(schema: object) -> list[str]:
    """JSON values that break a schema (a dict or its JSON text); empty for one that allows everything or cannot be read."""
    import jsonschema

    try:
        schema = json.loads(schema) if isinstance(schema, str) else schema
        validator = jsonschema.validators.validator_for(schema)(schema)
        return [text for text in ("{}", "[]", "null", '"x"', "-1.5") if not validator.is_valid(json.loads(text))][:3]
    except Exception:  # an odd schema is the schema reward's affair
        return []


def replaced(completion: str | list[dict], text: str) -> str | list[dict]:
    """The completion with `text` as all that the assistant says last."""
    return _with_text(completion, text)


def _changed(answer: str, match: re.Match) -> Iterator[tuple[str, str]]:
    """(whole answer, number alone) for n + 1, n + 7, -n - 1."""
    start, end = match.span()
    sign = answer[start - 1 : start]
    signed = sign in ("-", "+", "\N{MINUS SIGN}") and not (start >= 2 and (answer[start - 2].isalnum() or answer[start - 2] in ")]}"))
    digits = match.group()
    with localcontext() as context:
        context.prec = _MAX_DIGITS + 10
        n = Decimal(digits.replace(",", ""))
        if signed:
            start -= 1
            n = n if sign == "+" else -n
        places = len(digits.partition(".")[2])
        for value in (n + 1, n + 7, -n - 1):
            number = f"{value:{',' if ',' in digits else ''}.{places}f}"
            yield answer[:start] + number + answer[end:], number


def _last_number_span(text: str) -> tuple[int, int] | None:
    last = None
    for last in _NUMBER.finditer(text):  # noqa: B007
        pass
    if last is None:
        return None
    start = last.start()
    signed = text[start - 1 : start] == "-" and not text[max(0, start - 2) : start - 1].isalnum()
    return start - signed, last.end()


def _differs(new: str, right: Sequence[str]) -> bool:
    return all(_plain(new) != _plain(r) and not _values(new) & _values(r) for r in right)


def _letters_differ(new: str, right: Sequence[str]) -> bool:
    """Not the same letters in another order: 'x+1' and '1+x' may be equal."""
    return all(sorted(filter(str.isalnum, _plain(new))) != sorted(filter(str.isalnum, _plain(r))) for r in right)


def _plain(text: str) -> str:
    text = _WRAPPER.sub(r"\1", text)
    return "".join(text.replace("$", "").replace("\N{MINUS SIGN}", "-").split()).casefold()


def _values(text: str) -> set[Fraction]:
    """The numbers a text may stand for: a percentage is two of them; no number gives an empty set."""
    plain = _plain(text).rstrip(".")
    percent = plain.endswith("%")
    plain = plain.rstrip("\\%")
    if len(plain) > 2 * _MAX_DIGITS:
        return set()
    try:
        if match := _FRACTION.fullmatch(plain):
            top, bottom = (g for g in match.groups() if g is not None)
            value = Fraction(int(top), int(bottom))
        else:
            value = Fraction(plain.replace(",", "")) if "e" not in plain else Fraction(str(float(plain)))
    except (ValueError, ZeroDivisionError, OverflowError):
        return set()
    return {value, value / 100} if percent else {value}


def _with_text(completion: str | list[dict], text: str) -> str | list[dict]:
    if isinstance(completion, str):
        return text
    messages = copy.deepcopy(completion)
    last = max(i for i, m in enumerate(messages) if m.get("role") == "assistant")
    messages[last]["content"] = text
    return messages
