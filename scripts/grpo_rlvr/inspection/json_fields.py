"""A JSON answer with one field made wrong: every kind of value, keys and items, each by the path of the field."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.inspection.equality import may_name_the_same, plain
from grpo_rlvr.inspection.mutate import json_spans

DEEPEST = 20
TOP = "(top)"  # the path of the whole value
MADE_UP, UNASKED = "qxv", "unasked"
LESS, MORE, ITEM_LESS = "a key left out", "a key more", "an item left out"
STRUCTURE = (LESS, MORE, ITEM_LESS)  # changes of what there is, not of a value
FAR = 0.10  # of a number's size; what lies nearer may be within a tolerance
_GONE = object()


@dataclass(frozen=True)
class Change:
    """One change of a JSON value.

    Attributes:
        path: the field, `items[].count`: positions in lists are left out.
        what: the change in words.
        steps: keys and positions from the top to what is replaced.
        new: what is put there.
        sure: it is wrong beyond doubt. Not so an added key, a value where the gold has null, another order.
        name: another row's words, which may be a second name of the same thing.
    """

    path: str
    what: str
    steps: tuple
    old: Any
    new: Any
    sure: bool = True
    name: bool = False

    def applied(self, value: Any) -> Any:
        """A copy of the value with the change made; parts that stay are shared."""
        return with_part(value, self.steps, self.new)


def json_of(text: str) -> tuple[int, int, Any] | None:
    """(start, end, value) of the JSON object or array that the text is, or holds in a tag or a fence."""
    for start, end in json_spans(text):
        try:
            return start, end, json.loads(text[start:end])
        except (ValueError, RecursionError):
            continue
    return None


def field_changes(value: Any, gold: Any, others: Mapping[str, Sequence[Any]], path: str = "", steps: tuple = ()) -> Iterator[Change]:
    """Changes of the parts of `value` that stand in `gold` in the same place: what the gold does not have may be said in any way.

    Of a list the first and the last item are gone into.

    Args:
        others: path -> values that other golds have there.
    """
    if len(steps) > DEEPEST:
        return
    if isinstance(value, dict) and isinstance(gold, dict):
        shared = [key for key in value if key in gold]
        for key in shared:
            inside = f"{path}.{key}" if path else str(key)
            if same_json(value[key], gold[key]):
                yield Change(inside, LESS, (*steps, key), value[key], _GONE, sure=gold[key] not in (None, "", [], {}))
            yield from field_changes(value[key], gold[key], others, inside, (*steps, key))
        if shared and len(shared) == len(value):
            yield Change(path or TOP, MORE, steps, "", {**value, UNASKED: MADE_UP}, sure=False)
    elif isinstance(value, list) and isinstance(gold, list):
        inside = f"{path}[]"
        if value and same_json(value, gold):
            yield Change(path or TOP, ITEM_LESS, steps, "", value[:-1])
        count = min(len(value), len(gold))
        for at in sorted({0, count - 1}) if count else ():
            yield from field_changes(value[at], gold[at], others, inside, (*steps, at))
    elif not isinstance(value, dict | list) and same_json(value, gold):
        for what, new, sure, name in _wrong_leaves(value, others.get(path or TOP, ())):
            yield Change(path or TOP, what, steps, value, new, sure, name)


def leaves_by_path(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """(path, value) of everything in a JSON value that is no object or list."""
    if isinstance(value, dict | list) and depth <= DEEPEST:
        for key, item in value.items() if isinstance(value, dict) else ((None, v) for v in value):
            yield from leaves_by_path(item, f"{path}[]" if key is None else f"{path}.{key}" if path else str(key), depth + 1)
    elif not isinstance(value, dict | list):
        yield path or TOP, value


def list_paths(value: Any, path: str = "", steps: tuple = ()) -> Iterator[tuple[str, tuple, list]]:
    """(path, steps, list) of the lists that are not empty; of lists of lists only those in the first item."""
    if len(steps) > DEEPEST:
        return
    if isinstance(value, list) and value:
        yield path or TOP, steps, value
        yield from list_paths(value[0], f"{path}[]", (*steps, 0))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from list_paths(item, f"{path}.{key}" if path else str(key), (*steps, key))


def with_part(value: Any, steps: tuple, new: Any) -> Any:
    """A copy with what stands at `steps` replaced."""
    if not steps:
        return new
    first, rest = steps[0], steps[1:]
    copy = dict(value) if isinstance(value, dict) else list(value)
    if new is _GONE and not rest:
        del copy[first]
    else:
        copy[first] = with_part(copy[first], rest, new)
    return copy


def fits_schema(value: Any, schema: object) -> bool:
    """Whether a JSON schema (a dict or its JSON text) accepts the value; True also where that cannot be said."""
    import jsonschema

    try:
        schema = json.loads(schema) if isinstance(schema, str) else schema
        return jsonschema.validators.validator_for(schema)(schema).is_valid(value)
    except Exception:  # an odd schema is the schema reward's affair
        return True


def same_json(a: Any, b: Any, depth: int = 0) -> bool:
    """Equal as JSON: true is not 1, 1.0 is 1, and case and white space of text do not matter."""
    if depth > DEEPEST or isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_json(v, b[k], depth + 1) for k, v in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same_json(x, y, depth + 1) for x, y in zip(a, b, strict=True))
    if isinstance(a, str) and isinstance(b, str):
        return a == b or plain(a) == plain(b)
    return a == b and isinstance(a, str) == isinstance(b, str)


def _wrong_leaves(value: Any, others: Sequence[Any]) -> Iterator[tuple[str, Any, bool, bool]]:
    """(what, new value, surely wrong, may be another name): of the same type, so that only the value is wrong."""
    if value is None:
        yield "a value for null", MADE_UP, False, False
    elif isinstance(value, bool):
        yield "the opposite", not value, True, False
    elif isinstance(value, str):
        words = [o for o in others if isinstance(o, str) and o.strip() and plain(o) != plain(value) and not may_name_the_same(o, value)]
        if words:
            yield "another row's value", words[0], bool(value.strip()), True
        yield "a made-up word", value[:1].strip() + MADE_UP + value[-1:].strip(), bool(value.strip()), False
    elif math.isfinite(value):
        numbers = [o for o in others if type(o) is type(value) and math.isfinite(o) and abs(o - value) > FAR * max(abs(value), 1)]
        if numbers:
            yield "another row's value", max(numbers, key=lambda o: abs(o - value)), True, False
        small = abs(value) < 1000
        yield "another number", value + 1000 if small else value // 10 if isinstance(value, int) else value / 10, True, False
