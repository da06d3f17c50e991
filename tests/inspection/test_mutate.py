from __future__ import annotations

import pytest
from grpo_rlvr.inspection.mutate import invalid_json, mutants, wrong_answers


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("42", ["43", "49", "-43"]),
        ("-7", ["-6", "0", "6"]),
        ("1,999", ["2,000", "2,006", "-2,000"]),
        ("2.50", ["3.50", "9.50", "-3.50"]),
        ("x = 5", ["x = 6", "x = 12", "x = -6"]),
        ("12 apples", ["13 apples", "19 apples", "-13 apples"]),
        ("$-3$", ["$-2$", "$4$", "$2$"]),
        ("50%", ["51%", "57%", "-51%"]),
    ],
)
def test_numbers_keep_their_writing(answer, expected):
    assert wrong_answers(answer, [], []) == expected


def test_a_mutant_that_is_the_gold_is_left_out():
    # The reward accepted 41 although 42 is right: 42 would be no wrong answer.
    assert wrong_answers("41", ["42"], []) == ["48", "-42"]
    assert wrong_answers("41", ["42.0"], []) == ["48", "-42"]
    assert wrong_answers("41 apples", ["42"], []) == ["48 apples", "-42 apples"]


def test_text_becomes_another_gold_or_gets_an_x():
    assert wrong_answers("B", ["B"], ["B", "A", "C", "D"]) == ["A", "C"]
    assert wrong_answers("blue", ["blue"], ["Blue "]) == ["bluex"]
    assert wrong_answers("1+x^2", ["1+x^2"], ["x^2+1"]) == ["1+x^3"]  # the other gold may be equal in value
    assert wrong_answers(r"\frac{1}{2}", ["1/2"], ["0.5", "3/4"]) == ["3/4"]
    assert wrong_answers("0/4", ["0"], []) == []  # 0/5 would be right


def test_huge_digit_strings_are_treated_as_text():
    assert wrong_answers("9" * 5000, [], []) == ["9" * 5000 + "x"]


def test_only_the_answer_changes():
    text = "<reasoning>2+2 is 4, <answer>9</answer>?</reasoning>\n<answer>4</answer>"
    assert mutants(text, ["4"], [])[0] == (text[:-10] + "5</answer>", "4", "5")
    assert mutants("so it is 3, no, 4.", ["4"], [])[0][0] == "so it is 3, no, 5."
    assert mutants("no number here", ["4"], []) == []


def test_chat_completions_stay_chats_and_originals_untouched():
    chat = [{"role": "assistant", "content": "call"}, {"role": "tool", "content": "4"}, {"role": "assistant", "content": "<answer>4</answer>"}]
    changed = mutants(chat, ["4"], [])[0][0]
    assert changed[2]["content"] == "<answer>5</answer>" and changed[:2] == chat[:2]
    assert chat[2]["content"] == "<answer>4</answer>"


def test_invalid_json_breaks_the_schema():
    assert invalid_json('{"type": "object", "required": ["a"]}') == ["{}", "[]", "null"]
    assert invalid_json({"type": "array"}) == ["{}", "null", '"x"']
    assert invalid_json({}) == [] and invalid_json("no schema") == []
