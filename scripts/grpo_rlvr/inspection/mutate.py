"""Wrong versions of a right completion: the same text with another final answer."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

from grpo_rlvr.completions import answer_span, completion_text
from grpo_rlvr.inspection.equality import MAX_DIGITS, NUMBER, clearly_differs, differs, may_name_the_same, plain, same_value, values

LONG = 200  # characters; a longer gold is a worked solution, and not looked for in the text
LABELS = 10  # golds; with no more the answers are a set of labels, and one of them is never another's name
_SIGNS = ("-", "+", "\N{MINUS SIGN}")
# One number with at most a unit or a label around it; where more stands around it, -n may be n: |2|, cos 2.
_WORD = re.compile(r"[^\W\d_]{3,}")
_BARE = re.compile(r"[\s$]*[-+\N{MINUS SIGN}]?[\d.,]+[\s$]*(?:\\?%|[^\W\d_]*)[\s$.]*")


_JSON_PLACES = re.compile(r"<tool_call>\s*|<answer>\s*|```(?:json)?\s*\n")
_ENDS = {"<tool_call>": "</tool_call>", "<answer>": "</answer>", "```": "```"}


@dataclass(frozen=True)
class Wrong:
    """A wrong answer.

    `near`: close enough that a reward with a tolerance may pay for it, or not surely wrong. `name`: another row's words, which may be a second
    name of the same thing ("Holland").
    """

    text: str
    near: bool = False
    name: bool = False


@dataclass(frozen=True)
class Mutant:
    """A completion with a wrong answer: `old` was replaced by `new`. `near` and `name` as in `Wrong`; `part`: other right parts stay."""

    completion: str | list[dict]
    old: str
    new: str
    near: bool = False
    name: bool = False
    part: bool = False


def mutants(completion: str | list[dict], golds: Sequence[str], other_golds: Sequence[str], answers: Sequence[str] | None = None) -> list[Mutant]:
    """Completions like this one with a wrong final answer; empty where it is not known what to replace.

    Replaced is the value of the gold in a JSON completion; else the final answer, or only the gold where it stands inside of it
    (`B) 12`); else, without a final answer, the gold wherever it stands in the text as a whole word or number.

    Args:
        golds: every reference value of this sample, as text; no mutant equals one of them in text or value.
        other_golds: reference values of other rows, tried in this order for answers that are not one number.
        answers: those of `golds` that the reward reads, to be found in the text; by default all.
    """
    text = completion_text(completion)
    answers = [a for a in (golds if answers is None else answers) if plain(a) and len(a) <= LONG]
    made = _json_mutants(text, golds, other_golds, answers)
    if not made:
        span = answer_span(text)
        start, end = span or (0, len(text))
        region = text[start:end]
        old, places = region, [(0, len(region))]
        if span is None or differs(region, answers):
            for answer in answers:
                if found := find_gold(region, answer):
                    old, places = region[slice(*found[-1])], found
                    break
            else:
                places = places if span else []
        made = [(text[:start] + _put(region, places, wrong.text) + text[end:], old, wrong) for wrong in wrong_answers(old, golds, other_golds)]
        made = made if places else []
    parts = json_leaves(text) > 1
    return [Mutant(_with_text(completion, new), old, wrong.text, wrong.near, wrong.name, parts) for new, old, wrong in made]


def wrong_answers(answer: str, golds: Sequence[str], other_golds: Sequence[str]) -> list[Wrong]:
    """Other answers, none of them equal to `answer` or to a gold.

    One number n becomes n + 1, n + 7, -n - 1, -n, 10n, n + 1000 and, if whole, n + 0.5, written the same way. Other text becomes up to two
    other golds, or has its last number changed, or gets an 'x'; a word becomes a word that does not exist. Then the answer hidden between
    two wrong ones, and none at all.
    """
    if not plain(answer):
        return []
    right = [answer, *golds]
    numbers = list(NUMBER.finditer(answer))
    usable = bool(numbers) and len(numbers[-1].group()) <= MAX_DIGITS
    wrong: list[Wrong] = []
    if len(numbers) == 1 and usable:
        also = {m.group() for gold in golds if not values(gold) for m in NUMBER.finditer(gold)}  # of "15 or 16" either may be right
        bare = _BARE.fullmatch(answer) is not None
        for new, number, near, flipped in _changed(answer, numbers[0]):
            fresh = differs(new, right) and differs(number, golds) and number not in also
            if fresh and (bare or not flipped or not any(same_value(new, r) for r in right)):
                wrong.append(Wrong(new, near))
    else:
        fresh = (
            gold
            for gold in other_golds
            if plain(gold) and differs(gold, right) and not any(may_name_the_same(gold, r) for r in right) and clearly_differs(gold, right)
        )
        named = len(other_golds) > LABELS and _WORD.search(answer) is not None
        wrong = [Wrong(gold, name=named) for gold in itertools.islice(fresh, 2)]
        if not wrong and usable:
            start = numbers[-1].start()
            # A figure put before the last number: what stands after it (2,75) may be decimals.
            changed = [(new, True) for new, *_ in itertools.islice(_changed(answer, numbers[-1]), 1)] + [
                (f"{answer[:start]}1{answer[start:]}", False)
            ]
            wrong = [Wrong(new, near) for new, near in changed if differs(new, right) and not any(same_value(new, r) for r in right)]
        elif not wrong:
            wrong = [Wrong(answer.rstrip() + "x", near=True)]
        if not usable and (found := _WORD.fullmatch(answer.strip())) and len(found.group()) <= 40:
            wrong.append(Wrong(f"{found.group()[0]}qxv{found.group()[-1]}"))
    wrong = list({w.text: w for w in reversed(wrong)}.values())[::-1]
    far = [w.text for w in wrong if not w.near and "qxv" not in w.text] or [w.text for w in wrong]
    if wrong:
        wrong.append(Wrong(f"{far[-1]}, {answer}, {far[0]}"))
    return [w for w in [*wrong, Wrong("")] if all(plain(w.text) != plain(r) for r in right)]


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


def _changed(answer: str, match: re.Match) -> Iterator[tuple[str, str, bool, bool]]:
    """(whole answer, number alone, whether it is near, whether only the sign changed) for each other number."""
    start, end = match.span()
    digits = match.group()
    signed = _is_sign(answer, start - 1)
    with localcontext() as context:
        context.prec = MAX_DIGITS + 10
        n = Decimal(digits.replace(",", ""))
        if signed:
            start -= 1
            n = n if answer[start] == "+" else -n
        places = len(digits.partition(".")[2])
        others = [(n + 1, True), (n + 7, True), (-n - 1, abs(2 * n + 1) <= 8)]
        if n:
            others += [(-n, abs(2 * n) <= 1), (n * 10, abs(9 * n) <= 1)]
        if abs(n) < 1000:
            others.append((n + 1000, False))
        if not places:
            others.append((n + Decimal("0.5"), True))
        for value, near in others:
            number = f"{value:{',' if ',' in digits else ''}.{places or int(value != int(value))}f}"
            yield answer[:start] + number + answer[end:], number, near, value == -n


def _is_sign(text: str, at: int) -> bool:
    """Whether the character is the sign of what follows, and not a minus between two things."""
    if at < 0 or text[at] not in _SIGNS:
        return False
    return at == 0 or not (text[at - 1].isalnum() or text[at - 1] in ")]}")


def find_gold(text: str, gold: str) -> list[tuple[int, int]]:
    """Where a gold stands as a whole word, or as a number of its value."""
    wanted = values(gold)
    if wanted and NUMBER.search(gold):
        found = []
        for match in NUMBER.finditer(text):
            start, end = match.span()
            start -= _is_sign(text, start - 1)
            inside = start > 0 and (text[start - 1].isalnum() or text[start - 1] in "._")
            # "2024-03-15" and "3:15" are no numbers of their own.
            inside = inside or re.match(r"[-:/]\d", text[end : end + 2]) or (start > 1 and text[start - 1] in "-:/" and text[start - 2].isdigit())
            if not inside and len(match.group()) <= MAX_DIGITS and values(text[start:end]) & wanted:
                found.append((start, end))
        if found or NUMBER.fullmatch(gold.strip().lstrip("-+")):
            return found
    pattern = rf"(?<!\w){re.escape(gold.strip())}(?!\w)"
    return [m.span() for m in re.finditer(pattern, text)] or [m.span() for m in re.finditer(pattern, text, re.IGNORECASE)]


def _put(text: str, places: Sequence[tuple[int, int]], new: str) -> str:
    parts, at = [], 0
    for start, end in places:
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def _json_mutants(text: str, golds: Sequence[str], other_golds: Sequence[str], answers: Sequence[str]) -> list[tuple[str, str, Wrong]]:
    """(text, old, new) for a completion that is, or holds in a tag or fence, a JSON object or array with the gold among its values."""
    for start, end in json_spans(text):
        try:
            value = json.loads(text[start:end])
            old = next((leaf for leaf in _leaves(value) if not differs(str(leaf), answers)), None)
            if old is None:
                continue
            return [
                (text[:start] + json.dumps(_with_leaf(value, old, _like(old, wrong.text)), ensure_ascii=False) + text[end:], str(old), wrong)
                for wrong in wrong_answers(str(old), golds, other_golds)
            ]
        except (ValueError, RecursionError):
            continue
    return []


def json_spans(text: str) -> list[tuple[int, int]]:
    """Where a completion may hold its JSON: all of it, a tool call, an answer tag, a fence; only spans that begin like an object or array."""
    spans = [(len(text) - len(text.lstrip()), len(text.rstrip()))]
    for match in itertools.islice(_JSON_PLACES.finditer(text), 20):
        close = text.find(next(end for start, end in _ENDS.items() if match.group().startswith(start)), match.end())
        if close >= 0:
            spans.append((match.end(), match.end() + len(text[match.end() : close].rstrip())))
    return [(start, end) for start, end in spans if text[start : start + 1] in ("{", "[")]


def json_leaves(text: str) -> int:
    """How many values the completion's JSON holds; 0 if it holds none."""
    for start, end in json_spans(text):
        try:
            return sum(1 for _ in _leaves(json.loads(text[start:end])))
        except (ValueError, RecursionError):
            continue
    return 0


def _leaves(value: Any) -> Iterator[str | int | float]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def _with_leaf(value: Any, old: Any, new: Any) -> Any:
    if isinstance(value, dict):
        return {k: _with_leaf(v, old, new) for k, v in value.items()}
    if isinstance(value, list):
        return [_with_leaf(v, old, new) for v in value]
    return new if type(value) is type(old) and value == old else value


def _like(old: Any, text: str) -> Any:
    """A number stays a number, if the new text is one."""
    if not isinstance(old, str):
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
    return text


def _with_text(completion: str | list[dict], text: str) -> str | list[dict]:
    if isinstance(completion, str):
        return text
    messages = copy.deepcopy(completion)
    last = max(i for i, m in enumerate(messages) if m.get("role") == "assistant")
    messages[last]["content"] = text
    messages[last].pop("tool_calls", None)  # they would go on being what the text no longer says
    return messages
