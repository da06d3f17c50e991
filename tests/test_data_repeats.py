"""Prompts that the data has more than once, with the same gold or with another."""

from __future__ import annotations

import pytest
from grpo_rlvr.data_repeats import find_repeats, repeat_findings


def rows(*pairs) -> list[dict]:
    return [{"row_id": f"train:{i}", "prompt": p, "answer": a, "id": i} for i, (p, a) in enumerate(pairs)]


def test_no_prompt_twice():
    assert find_repeats(rows(("a", "1"), ("b", "1"), ("A", "1")), {"answer"}).count == 0
    assert repeat_findings(rows(("a", "1"), ("b", "1")), {"answer"}, "data.train") == []


def test_repeats_and_two_golds_are_told_apart_by_row_number():
    data = rows(("a", "1"), ("b", "2"), ("a", "1"), ("b", "3"), ("a", "1"), ("b", "2"))
    found = find_repeats(data, {"answer"})
    assert found.count == 4 and found.pairs == [(0, 2), (1, 3), (0, 4), (1, 5)] and found.two_golds == [(1, 3)]
    warning, note = repeat_findings(data, {"answer"}, "data.train")
    assert (warning["severity"], warning["check"], warning["rows"]) == ("warning", "two_golds", [1, 3])
    assert "1 row of data.train repeats an earlier prompt with another gold: 1 and 3 (from 0)" in warning["message"] and warning["fix"]
    assert "one of each pair is an error" in warning["message"]
    assert (note["severity"], note["check"]) == ("note", "repeated_prompts")
    assert "4 of 6 rows of data.train repeat an earlier prompt: 0 and 2, 1 and 3, 0 and 4, 1 and 5 (from 0)" in note["message"]


def test_only_what_a_reward_reads_is_a_gold():
    data = rows(("a", "1"), ("a", "2"))
    assert find_repeats(data, set()).two_golds == [] and find_repeats(data, {"answer"}).two_golds == [(0, 1)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5", "5.0"),
        (5, "5"),
        (5, 5.0),
        ("1e2", " 100 "),
        (0.1, "0.1"),
        ('{"a": 1, "b": [1, "x"]}', '{"b":[1.0,"x"],"a":1}'),
        ("[true, null]", "[ true,null ]"),
    ],
)
def test_one_value_written_in_two_ways_is_one_gold(one, other):
    assert find_repeats(rows(("a", one), ("a", other)), {"answer"}).two_golds == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5", "5.0000000000000000001"),
        ("0.1", "0.10000000000000001"),
        ("1", "true"),
        (1, True),
        ('{"a": 1}', '{"a": true}'),
        ('{"a": "5"}', '{"a": 5}'),
        ("[1, 2]", "[2, 1]"),
        ('{"a": 1}', '{"a": 1, "b": null}'),
        ("x", "X"),
        ("yes", "yes."),
        ("NaN", "nan"),
        ("1" * 5000, "1" * 4999 + "2"),
        ("1e9999999999999999999", "2e9999999999999999999"),
        ("[" * 100_000, "[" * 99_999),
        (None, "5"),
        (["5"], ["5.0"]),
        ("\\frac{1}{2}", "\\frac{2}{4}"),  # what LaTeX means only the math reward knows
    ],
)
def test_two_values_stay_two_golds(one, other):
    assert find_repeats(rows(("a", one), ("a", other)), {"answer"}).two_golds == [(0, 1)]


@pytest.mark.parametrize("prompt", [[{"role": "user", "content": "a"}], "a"])
def test_row_numbers_are_the_files_and_messages_count(prompt):
    data = [{"row_id": f"train:{i}", "prompt": prompt, "answer": "1"} for i in (3, 8)]
    (note,) = repeat_findings(data, {"answer"}, "data.train")
    assert "3 and 8 (from 0)" in note["message"]
    assert find_repeats([{"prompt": [{"content": "a", "role": "user"}]}, {"prompt": [{"role": "user", "content": "a"}]}], ()).count == 1


def test_many_are_counted_and_a_few_named():
    (note,) = repeat_findings(rows(*[("a", "1")] * 30), {"answer"}, "data.train")
    assert "29 of 30 rows" in note["message"] and note["message"].count(" and ") == 6 and "and 24 more" in note["message"]
