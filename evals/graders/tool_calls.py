"""A reward for tool calls: typed arguments, none extra, nothing for a thought."""

from __future__ import annotations

import json
from functools import partial

from graders.left import Left
from graders.scoring import Case, all_paid, none_paid
from graders.task import Outcome

HEAT = {"name": "set_temperature", "arguments": {"room": "bath", "degrees": 20}}
DARK = {"name": "set_light", "arguments": {"room": "bath", "on": False}}


def block(call: dict) -> str:
    return f"<tool_call>{json.dumps(call)}</tool_call>"


def case(name: str, completion: str, calls: list) -> Case:
    # Text, as the column in the file is.
    return Case(name, completion, dict.fromkeys(("gold_calls", "expected_calls", "answer", "calls"), json.dumps(calls)))


def with_arguments(call: dict, **changed: object) -> dict:
    return {**call, "arguments": {**call["arguments"], **changed}}


REFERENCE = case("the one right call", block(HEAT), [HEAT])
RIGHT = [
    case("two calls in another order", block(DARK) + "\n" + block(HEAT), [HEAT, DARK]),
    case("keys in another order", '<tool_call>{"arguments": {"degrees": 20, "room": "bath"}, "name": "set_temperature"}</tool_call>', [HEAT]),
    case("white space", f"<tool_call>\n{json.dumps(HEAT, indent=2)}\n</tool_call>", [HEAT]),
    case("thought, then called", f"<think>The bath, so 20.</think>\n{block(HEAT)}", [HEAT]),
    case("a reply in words where no call is needed", "You are welcome! Yes, that is usual.", []),
]
WRONG = [
    case("a number as text", block(with_arguments(HEAT, degrees="20")), [HEAT]),
    case("0 for false", block(with_arguments(DARK, on=0)), [DARK]),
    case("text for false", block(with_arguments(DARK, on="false")), [DARK]),
    case("another number", block(with_arguments(HEAT, degrees=21)), [HEAT]),
    case("one argument more", block(with_arguments(HEAT, unit="C")), [HEAT]),
    case("one of two calls", block(HEAT), [HEAT, DARK]),
    case("one call more", block(HEAT) + block(DARK), [HEAT]),
    case("the same call twice", block(HEAT) + block(HEAT), [HEAT]),
    case("broken JSON", '<tool_call>{"name": "set_temperature", "arguments": {"room": "bath"</tool_call>', [HEAT]),
]
THOUGHT = [
    case("only thought of", f"<think>I should call {block(HEAT)}</think> Done, the bath is at 20.", [HEAT]),
    case("only said", "I have set the bath to 20 degrees.", [HEAT]),
    case("silence where words are needed", "", []),
    case("a call where none is needed", block(HEAT), []),
]


def grade(left: Left) -> list[Outcome]:
    training = left.training()
    return [
        partial(all_paid, left, REFERENCE, RIGHT),
        partial(none_paid, left, REFERENCE, WRONG),
        partial(none_paid, left, REFERENCE, THOUGHT),
        (not training, "; ".join(training) or "no logs, checkpoints or weights"),
    ]
