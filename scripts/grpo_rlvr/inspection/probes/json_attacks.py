"""JSON and tool calls that a strict reader refuses: nothing in them, two of them, other types, doubled items, cut off."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

from grpo_rlvr.completions import after_reasoning
from grpo_rlvr.inspection.json_fields import fits_schema, list_paths, with_part
from grpo_rlvr.inspection.mutate import json_spans
from grpo_rlvr.inspection.probes.case import make_case
from grpo_rlvr.inspection.probes.golds import says_nothing
from grpo_rlvr.inspection.probes.subject import Subject, Trial, spread

MOST = 40
LISTS_EACH = 10  # lists of one completion
MINIMAL = ("{}", "[]", "null", '""', "0", "true", "[{}]")


def json_trials(subject: Subject) -> list[Trial]:
    """Trials from accepted completions that hold JSON; none where no completion does."""
    return [trial for i in spread(subject.distinct, MOST) for trial in _of_one(subject, i)]


def _of_one(subject: Subject, i: int) -> Iterator[Trial]:
    text = subject.text(i)
    found = next(((a, b) for a, b in json_spans(text) if _read(text[a:b]) is not None), None)
    if found is None:
        return
    start, end = found
    value = _read(text[start:end])
    columns = subject.samples[i]["columns"]

    def trial(probe: str, what: str, new: str, **more: Any) -> Trial:
        completion = subject.samples[i]["completion"]
        changed = new if isinstance(completion, str) else [{"role": "assistant", "content": new}]
        return Trial(i, changed, probe, what, text[start:end][:80], new[:80], **more)

    if not says_nothing(columns, subject.names):
        for small in MINIMAL:
            if small != text[start:end] and (subject.kind != "schema" or not fits_schema(json.loads(small), columns.get("output_schema"))):
                yield trial("minimal_json", f"{small} in the place of the JSON", text[:start] + small + text[end:])
    wrong = make_case(subject, i).wrong if text[start:end] == text.strip() or subject.kind == "calls" else None
    if wrong is not None and wrong != text and subject.kind != "schema":
        yield trial("several_answers", "right JSON first, wrong JSON after it", f"{text}\n{after_reasoning(wrong)}", place="first", part=True)
        yield trial("several_answers", "wrong JSON first, right JSON after it", f"{wrong}\n{after_reasoning(text)}", place="last", part=True)
    yield trial("truncated", "the JSON cut off in the middle", text[: (start + end) // 2], part=True)
    yield trial("truncated", "the JSON without its last character", text[: end - 1], part=True)
    for what, change in TYPES.items():
        changed = _changed(value, change)
        if changed is not None and (subject.kind != "schema" or not fits_schema(changed, columns.get("output_schema"))):
            new = text[:start] + json.dumps(changed, ensure_ascii=False) + text[end:]
            yield trial("typed_values", what, new, sure=what != "a number as text", part=True)
    if subject.kind not in ("schema", "calls"):
        for path, steps, items in itertools.islice(list_paths(value), LISTS_EACH):
            for what, change in LISTS.items():
                if changed := change(items):
                    new = text[:start] + json.dumps(with_part(value, steps, changed), ensure_ascii=False) + text[end:]
                    yield trial("repeated_items", f"{what} in {path[:60]}", new, sure=change is _twice, part=True)


def _swap_bool(leaf: Any) -> Any:
    """1 and true are equal to Python, and not to JSON."""
    if isinstance(leaf, bool):
        return int(leaf)
    return bool(leaf) if isinstance(leaf, int | float) and leaf in (0, 1) else None


def _as_text(leaf: Any) -> Any:
    return str(leaf) if isinstance(leaf, int | float) and not isinstance(leaf, bool) else None


def _twice(items: list) -> list:
    return [*items, items[-1]]


TYPES: dict[str, Callable[[Any], Any]] = {"true for 1, or 1 for true": _swap_bool, "a number as text": _as_text}
LISTS: dict[str, Callable[[list], list]] = {
    "an item twice": _twice,
    "the items in reverse": lambda items: items[::-1] if items[::-1] != items else [],
}


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with the first leaf changed for which `change` gives something; None if there is none."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            new = _changed(item, change)
            if new is not None:
                copy = dict(value) if isinstance(value, dict) else list(value)
                copy[key] = new
                return copy
        return None
    return change(value)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
