"""Structured output: a schema that one constant object fits is not enough."""

from __future__ import annotations

import json
from functools import partial

from graders.left import Left
from graders.scoring import Case, all_paid, none_paid
from graders.task import Outcome
from graders.words import mentions, said

# A row of data/train.jsonl.
GOLD = {
    "number": "INV-1006",
    "total": 726,
    "items": [{"name": "lamps", "count": 4}, {"name": "lamps", "count": 5}, {"name": "toner", "count": 7}],
    "paid": True,
}
SCHEMA = {
    "type": "object", "required": ["number", "total", "items", "paid"], "additionalProperties": False,
    "properties": {
        "number": {"type": "string", "pattern": "^INV-[0-9]{4}$"}, "total": {"type": "integer", "minimum": 0}, "paid": {"type": "boolean"},
        "items": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["name", "count"], "additionalProperties": False,
            "properties": {"name": {"type": "string"}, "count": {"type": "integer", "minimum": 1}}}},
    },
}  # fmt: skip
CONSTANT = {"number": "INV-1000", "total": 0, "items": [{"name": "x", "count": 1}], "paid": True}


def case(name: str, completion: str, gold: dict = GOLD) -> Case:
    # The gold is text, as in the file; a column that an agent added to the row comes from its own data, else it is the schema.
    return Case(name, completion, {"expected": json.dumps(gold), "answer": json.dumps(gold), "output_schema": json.dumps(SCHEMA)}, row="INV-1006")


REFERENCE = case("the right object", json.dumps(GOLD))
RIGHT = [
    case("indented", json.dumps(GOLD, indent=2)),
    case("keys in another order", json.dumps(dict(reversed(GOLD.items())))),
    case("compact", json.dumps(GOLD, separators=(",", ":"))),
]
WRONG = [
    case("a constant that fits the schema", json.dumps(CONSTANT)),
]
NEAR = [  # a reward of shares may pay for the rest, but less than for all
    case("another total", json.dumps({**GOLD, "total": 727})),
    case("another number", json.dumps({**GOLD, "number": "INV-1007"})),
    case("not paid", json.dumps({**GOLD, "paid": False})),
    case("1 for true", json.dumps({**GOLD, "paid": 1})),
    case("a total as text", json.dumps({**GOLD, "total": "726"})),
    case("an item missing", json.dumps({**GOLD, "items": GOLD["items"][:1]})),
    case("a key more", json.dumps({**GOLD, "note": "ok"})),
]
UNCLEAN = [
    case("text behind", json.dumps(GOLD) + " That is all."),
    case("text before", "Here you are: " + json.dumps(GOLD)),
    case("a key twice", json.dumps(GOLD)[:-1] + ', "total": 726}'),
    case("two objects", json.dumps(CONSTANT) + "\n" + json.dumps(GOLD)),
    case("Python, not JSON", str(GOLD)),
    case("nothing", ""),
]


def grade(left: Left) -> list[Outcome]:
    constant = mentions(
        left.said,
        r"\bconstant\b",
        r"\b(?:same|one|fixed|single|any|dummy|made[- ]up|invented|fake) (?:\w+ ){0,3}(?:object|json|answer|output|invoice|values?)\b[^.\n]{0,90}",
        r"valid(?:ity)?[^.\n]{0,60}\b(?:but|alone|only|not enough|says nothing|regardless|whatever)",
        r"(?:regardless of|whatever|ignor\w+|without (?:reading|looking)) [^.\n]{0,40}invoice",
    )
    return [
        partial(all_paid, left, REFERENCE, RIGHT),
        partial(none_of_them_paid, left),
        partial(none_paid, left, REFERENCE, UNCLEAN),
        said(constant, "that validity alone can be had with one constant object"),
    ]


def none_of_them_paid(left: Left) -> tuple[bool, str]:
    outcomes = none_paid(left, REFERENCE, WRONG), none_paid(left, REFERENCE, NEAR, share=0.9)
    return all(passed for passed, _ in outcomes), "; ".join(text for _, text in outcomes)
