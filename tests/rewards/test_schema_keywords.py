"""Keywords and formats that are checked here and not by jsonschema: exact decimals, JavaScript's patterns, bounded time."""

from __future__ import annotations

import json

import pytest
from grpo_rlvr.rewards import schema_reward
from grpo_rlvr.rewards.schema_formats import LONGEST_PARSED
from grpo_rlvr.rewards.schema_keywords import searcher


def score(schema: dict, *texts: str) -> list[float | None]:
    return schema_reward(completions=list(texts), output_schema=[schema] * len(texts))


def test_multiples_of_decimals_are_exact():
    assert score({"multipleOf": 0.1}, "0.3", "0.35", "7", "1e2", '"x"', "true") == [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    assert score({"multipleOf": 0.01}, "19.99", "19.999") == [1.0, 0.0]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        (r"a\$", "a$", True),
        ("[$]", "$", True),
        (r"\\$", "x\\", True),
        ("a", "bab", True),
        ("^a|b$", "xb", True),
    ],
)
def test_a_dollar_is_the_end(pattern, text, found):
    assert bool(searcher(pattern)(text)) == found
    assert score({"type": "string", "pattern": pattern}, json.dumps(text)) == [float(found)]


def test_names_go_by_patterns_too():
    schema = {"properties": {"a": {}}, "patternProperties": {"^x[0-9]$": {"type": "integer"}}, "additionalProperties": False}
    assert score(schema, '{"a": null, "x1": 1}', '{"x1": "1"}', '{"x1\\n": 1}', '{"b": 1}') == [1.0, 0.0, 0.0, 0.0]
    schema["additionalProperties"] = {"type": "boolean"}
    assert score(schema, '{"b": true}', '{"b": 1}', "[1]") == [1.0, 0.0, 1.0]


def test_a_pattern_that_never_ends_costs_a_bounded_wait(monkeypatch):
    pytest.importorskip("regex")
    monkeypatch.setattr("grpo_rlvr.rewards.schema_keywords.PATTERN_S", 0.05)
    # Neither engine finds a way around the back reference.
    text = json.dumps("a" * 40 + "b")
    assert score({"type": "string", "pattern": r"^(a|a)+\1$|^((a|b)+c?)+d$"}, text) == [0.0]


def test_iris_are_checked_as_the_uris_they_stand_for():
    schema = {"type": "string", "format": "iri"}
    assert score(schema, '"https://例え.jp/é?q=ü"', '"no iri"', '"https://a/\\ud800"', '"https://a/\\ue000"') == [1.0, 0.0, 0.0, 0.0]
    assert score({"type": "string", "format": "iri-reference"}, '"/é"', '"a b"', "7") == [1.0, 0.0, 0.0]
    assert score({"type": "string", "format": "uri-template"}, '"/{a}"', json.dumps("{a}" * LONGEST_PARSED)) == [1.0, 0.0]
