"""A model cannot guess the names of tools, keys and functions: the data check says where no prompt tells them."""

from __future__ import annotations

import pytest
from grpo_rlvr.rewards.dataset_check import check_dataset
from grpo_rlvr.rewards.registry import REGISTRY, BuiltReward

CALLS = [{"name": "set_light", "arguments": {"room": "bath", "on": True}}]
JSON = {"number": "INV-1", "items": [{"name": "paper", "count": 8}]}
TESTS = {"entry_point": "Solution.two_sum", "cases": [{"args": [[1], 1], "expected": [0]}] * 3}


def found(use: str, gold: object, prompts: list, **options) -> list[dict]:
    function = REGISTRY[use].make(**options)
    column = function.columns[0]
    reward = BuiltReward(use, function, columns=(column,))
    findings = check_dataset([reward], [{"prompt": prompt, column: gold} for prompt in prompts])
    return [f for f in findings if f["check"] == "unnamed"]


@pytest.mark.parametrize(
    ("use", "gold", "said", "unsaid", "named"),
    [
        ("tool_calls", CALLS, "Tools: set_light(room, on). Lights on in the bath.", "Lights on in the bath.", "'set_light', 'room'"),
        ("json", JSON, "Give number, items (name, count).", "Extract this invoice as JSON.", "'number', 'items', 'name', 'count'"),
        ("json", '{"a_b": 1}', 'Schema: {"properties": {"A_B": {}}}', "As JSON.", "'a_b'"),
        ("code", TESTS, "class Solution:\n    def two_sum(self, a, b):", "Write class Solution.", "'two_sum'"),
        ("code", "assert area(2) == 4\nassert area(3) == 9\nassert area(1) == 1", "Write area(r).", "Squares.", "'area'"),
    ],
)
def test_what_no_prompt_names_is_named(use, gold, said, unsaid, named):
    assert found(use, gold, [said, [{"role": "system", "content": said}, {"role": "user", "content": "Go."}]]) == []
    (finding,) = found(use, gold, [unsaid, said])
    assert finding["severity"] == "warning" and finding["rows"] == [0]
    assert f"1 of 2 prompts do not name what a right answer must: {named}" in finding["message"] and "tools" in finding["fix"]


def test_a_slip_in_a_few_rows_is_a_note_with_their_numbers():
    (finding,) = found("json", {"total": 1}, ["the total"] * 40 + ["the sum"])
    assert finding["severity"] == "note" and finding["rows"] == [40] and "; row 40 (from 0)" in finding["message"]


def test_where_nothing_has_to_be_named_nothing_is_said():
    assert found("tool_calls", [], ["Hello."]) == [] == found("json", "[1, 2]", ["The list."])
    assert found("code", {"stdin_stdout": [{"stdin": "1", "stdout": "1"}] * 3}, ["Echo."]) == []
