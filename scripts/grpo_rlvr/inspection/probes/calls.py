"""Tool calls with something changed, in the form in which the model wrote them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator

from grpo_rlvr.completions import after_reasoning, completion_text
from grpo_rlvr.inspection.mutate import Mutant, json_spans, replaced


def call_mutants(completion: str | list[dict]) -> list[Mutant]:
    """The completion with other calls: another function, another value, an argument less, one more, none at all."""
    made = []
    for what, change in CHANGES.items():
        changed = edited(completion, change)
        if changed is not None and changed != completion:
            made.append(Mutant(changed, "the calls", what, near=what == "an argument more", part=what in PARTLY))
    again = _made_again(completion) if made else None
    if again is not None:
        made.append(Mutant(again, "the calls", AGAIN, part=True))
    return [*made, Mutant(replaced(completion, "I will not call anything."), "the calls", "no call")] if made else []


def _made_again(completion: str | list[dict]) -> str | list[dict] | None:
    """The completion with its calls made a second time behind a second reasoning part, which hides the first from a reader of what
    follows the last one; None where the calls do not stand in the text."""
    text = completion_text(completion)
    answer = after_reasoning(text).strip()
    return replaced(completion, f"{text}\n<think>To be sure, once more.</think>\n{answer}") if json_spans(answer) else None


def edited(completion: str | list[dict], change: Callable[[list[dict]], list[dict] | None]) -> str | list[dict] | None:
    """The completion with its calls changed; None where there are none that can be read, or `change` gives None."""
    if not isinstance(completion, str):
        last = max((i for i, m in enumerate(completion) if m.get("role") == "assistant"), default=None)
        calls = completion[last].get("tool_calls") if last is not None else None
        if calls:
            new = change(copy.deepcopy(list(calls)))
            return None if new is None else [{**m, "tool_calls": new} if i == last else copy.deepcopy(m) for i, m in enumerate(completion)]
    text = completion_text(completion)
    found = []
    for start, end in json_spans(text):
        try:
            value = json.loads(text[start:end])
        except (ValueError, RecursionError):
            continue
        if found and start < found[-1][1]:
            continue  # inside one that was taken
        found.append((start, end, value))
    if not found:
        return None
    whole = len(found) == 1 and isinstance(found[0][2], list)
    new = change(copy.deepcopy(found[0][2] if whole else [value for *_, value in found]))
    if new is None:
        return None
    if whole:
        start, end, _ = found[0]
        return replaced(completion, text[:start] + json.dumps(new, ensure_ascii=False) + text[end:])
    start, end, _ = found[0]
    block_end = _block_end(text, end)
    block = text[_block_start(text, start) : block_end]
    texts = [json.dumps(v, ensure_ascii=False) for v in new]
    written = "\n".join(block.replace(text[start:end], t, 1) for t in texts)
    after = _block_end(text, found[-1][1])
    return replaced(completion, text[: _block_start(text, start)] + written + text[after:])


def _block_start(text: str, start: int) -> int:
    opened = text.rfind("<tool_call>", 0, start)
    return opened if opened >= 0 and not text[opened + 11 : start].strip() else start


def _block_end(text: str, end: int) -> int:
    close = text.find("</tool_call>", end)
    return close + 12 if close >= 0 and not text[end:close].strip() else end


def _bodies(calls: list) -> Iterator[dict]:
    for call in calls:
        if isinstance(call, dict):
            yield call["function"] if isinstance(call.get("function"), dict) else call


def _arguments(body: dict) -> tuple[dict | None, Callable[[dict], None]]:
    """The arguments and a way to put changed ones back; they may be JSON text."""
    key = "arguments" if "arguments" in body else "parameters"
    value = body.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
        return (value if isinstance(value, dict) else None), lambda new: body.__setitem__(key, json.dumps(new))
    return (value if isinstance(value, dict) else None), lambda new: body.__setitem__(key, new)


def _other_function(calls: list) -> list | None:
    bodies = [b for b in _bodies(calls) if isinstance(b.get("name"), str)]
    if not bodies:
        return None
    bodies[0]["name"] += "_other"
    return calls


def _with_arguments(calls: list, change: Callable[[dict], dict | None]) -> list | None:
    for body in reversed(list(_bodies(calls))):
        arguments, put = _arguments(body)
        if arguments is None:
            continue
        new = change(arguments)
        if new is not None:
            put(new)
            return calls
    return None


def _other_value(arguments: dict) -> dict | None:
    for key, value in reversed(arguments.items()):
        if isinstance(value, bool):
            return {**arguments, key: not value}
        if isinstance(value, int | float):
            return {**arguments, key: value + 7}
        if isinstance(value, str):
            return {**arguments, key: value[:1] + "qxv" + value[1:]}
    return None


def _double(calls: list) -> list | None:
    return [*calls, calls[-1]] if calls else None


CHANGES: dict[str, Callable[[list], list | None]] = {
    "another function": _other_function,
    "another value": lambda calls: _with_arguments(calls, _other_value),
    "an argument less": lambda calls: _with_arguments(calls, lambda a: dict(list(a.items())[:-1]) if a else None),
    "an argument more": lambda calls: _with_arguments(calls, lambda a: {**a, "unasked": 1}),
    "a call twice": _double,
}
AGAIN = "the calls again after thinking again"
PARTLY = ("another value", "an argument less", "an argument more", "a call twice")  # a reward of shares may pay the rest
