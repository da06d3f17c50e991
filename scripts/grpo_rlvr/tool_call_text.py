"""The tool calls that a model wrote: in the messages' own field, in `<tool_call>` tags, or as bare JSON.

As in `completions`, any input is taken, and the time is linear in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from grpo_rlvr.completions import assistant_turns, content_text, outside_reasoning, tag_span

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
_JSON_START = re.compile(r"\{(?=\s*[\"}])|\[(?=\s*\{)")
_CALL_BEGUN = re.compile(r'(?:\[\s*)?\{\s*"(?:name|function|arguments|parameters|tool_calls)"')
_WHITE = re.compile(r"\s*")


def find_tool_calls(completion: Any, decode: Callable[[str, int], tuple[Any, int]], tagged: bool = False) -> list[Any] | None:
    """The tool calls of all assistant turns in their order, as the JSON values that were written.

    A turn's `tool_calls` field counts, else what its text holds outside of the reasoning: the `<tool_call>` blocks, or where
    there is no such tag, JSON objects (or lists of them) that have the form of a call, in the last complete `<answer>` if
    there is one. None where a call was begun that cannot be read.

    Args:
        decode: reads one JSON value of a text at an index, returns it and the index after it; ValueError if there is none.
        tagged: a call in the text without the tags is one that cannot be read.
    """
    if isinstance(completion, str):
        return _written_calls(completion, decode, tagged)
    calls: list[Any] = []
    for turn in assistant_turns(completion):
        made = turn.get("tool_calls")
        if isinstance(made, (list, tuple)) and made:
            found: list[Any] | None = list(made)
        else:
            found = _written_calls(content_text(turn.get("content")), decode, tagged)
        if found is None:
            return None
        calls += found
    return calls


def _written_calls(text: str, decode: Callable, tagged: bool) -> list[Any] | None:
    text = outside_reasoning(text)
    if CALL_OPEN in text:
        return _tagged_calls(text, decode)
    bare = _bare_calls(text, decode)
    return bare if not (tagged and bare) else None


def _tagged_calls(text: str, decode: Callable) -> list[Any] | None:
    calls: list[Any] = []
    at = text.find(CALL_OPEN)
    while at >= 0:
        try:
            # Decoded from the opening tag on: an argument may hold the text of the closing one.
            value, end = decode(text, _after_white(text, at + len(CALL_OPEN)))
        except (ValueError, RecursionError):
            return None
        end = _after_white(text, end)
        if not text.startswith(CALL_CLOSE, end):
            return None
        calls += value if isinstance(value, list) else [value]
        at = text.find(CALL_OPEN, end)
    return calls


def _after_white(text: str, at: int) -> int:
    return at if text[at : at + 1] in ("{", "<") else _WHITE.match(text, at).end()


def _bare_calls(text: str, decode: Callable) -> list[Any] | None:
    span = tag_span(text)
    text = text if span is None else text[span[0] : span[1]]
    calls: list[Any] = []
    # What failed tries may cost together, in characters: a text made of beginnings must not be read once for each of them.
    left = 50 * len(text) + 100_000
    found = _JSON_START.search(text)
    while found:
        start = found.start()
        try:
            value, end = decode(text, start)
        except RecursionError:
            return None
        except ValueError as exc:
            whole = not isinstance(exc, json.JSONDecodeError) or exc.msg.startswith("Unterminated")
            left -= len(text) if whole else 2 * exc.pos - start  # json counts the lines up to the place of the error
            if left < 0 or _CALL_BEGUN.match(text, start):
                return None
            found = _JSON_START.search(text, start + 1)
            continue
        if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
            value = value["tool_calls"]
        items = value if isinstance(value, list) else [value]
        alike = [_looks_like_call(item) for item in items]
        if all(alike):
            calls += items
        elif any(alike):
            return None
        found = _JSON_START.search(text, end)
    return calls


def _looks_like_call(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("function"), dict):
        value = value["function"]
    named = isinstance(value.get("name"), str)
    return named and ("arguments" in value or "parameters" in value or not value.keys() - {"name", "id", "type"})
