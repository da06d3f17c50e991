from __future__ import annotations

import pytest
from grpo_rlvr.inspection.mutate import invalid_json, mutants, wrong_answers
from grpo_rlvr.inspection.probes.calls import call_mutants


def texts(answer: str, golds=(), others=()) -> list[str]:
    return [w.text for w in wrong_answers(answer, list(golds), list(others))]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("42", ["43", "49", "-43", "-42", "420", "1042", "42.5", "1042, 42, -43", ""]),
        ("-7", ["-6", "0", "6", "7", "-70", "993", "-6.5", "993, -7, 6", ""]),
        ("1,999", ["2,000", "2,006", "-2,000", "-1,999", "19,990", "1,999.5", "19,990, 1,999, -2,000", ""]),
        ("2.50", ["3.50", "9.50", "-3.50", "-2.50", "25.00", "1002.50", "1002.50, 2.50, -2.50", ""]),
        ("x = 5", ["x = 6", "x = 12", "x = -6", "x = -5", "x = 50", "x = 1005", "x = 5.5", "x = 1005, x = 5, x = -6", ""]),
        ("$-3$", ["$-2$", "$4$", "$2$", "$3$", "$-30$", "$997$", "$-2.5$", "$997$, $-3$, $3$", ""]),
        ("50%", ["51%", "57%", "-51%", "-50%", "500%", "1050%", "50.5%", "1050%, 50%, -51%", ""]),
        ("0", ["1", "7", "-1", "1000", "0.5", "1000, 0, 1000", ""]),
        (r"\pm 2", [r"\pm 3", r"\pm 9", r"\pm -3", r"\pm 20", r"\pm 1002", r"\pm 2.5", r"\pm 1002, \pm 2, \pm 20", ""]),  # -2 is the same there
    ],
)
def test_numbers_keep_their_writing(answer, expected):
    assert texts(answer, [answer]) == expected


def test_near_answers_are_those_that_a_tolerance_may_pay():
    near = {w.text for w in wrong_answers("1000", ["1000"], []) if w.near}
    assert near == {"1001", "1007", "1000.5"}
    assert {w.text for w in wrong_answers("0.5", ["0.5"], []) if not w.near} == {"5.0", "1000.5", "1000.5, 0.5, 5.0", ""}


def test_a_mutant_that_is_the_gold_is_left_out():
    # The reward accepted 41 although 42 is right: 42 would be no wrong answer.
    for gold in ("42", "42.0", "41 or 42", "somewhere between 40 and 42"):
        assert texts("41", [gold])[:2] == ["48", "-42"]
    assert texts("41 apples", ["42"])[:2] == ["48 apples", "-42 apples"]


def test_text_becomes_another_gold_or_gets_an_x():
    assert texts("B", ["B"], ["B", "A", "C", "D"]) == ["A", "C", "C, B, A", ""]
    assert texts("blue", ["blue"], ["Blue "]) == ["bluex", "bqxve", "bqxve, blue, bluex", ""]
    assert texts("1+x^2", ["1+x^2"], ["x^2+1"])[:2] == ["1+x^3", "1+x^12"]  # the other gold may be equal in value
    assert texts(r"\frac{1}{2}", ["1/2"], ["0.5", "3/4"])[0] == "3/4"
    assert texts("0/4", ["0"]) == [""]  # 0/5 would be right
    assert texts("", [""]) == []


@pytest.mark.parametrize(
    ("gold", "other"),
    [
        ("(0,1)", r"\left(0,1\right)"),
        ("2x+2", "2(x+1)"),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
        ("[0,1]", r"0 \le x \le 1"),
        (r"\text{Evelyn}", "Evelyn"),
        ("St. Paul", "St Paul"),
        (r"\frac{x}{2}", r"\dfrac{x}{2}"),
    ],
)
def test_another_gold_of_the_same_value_is_no_wrong_answer(gold, other):
    assert other not in texts(gold, [gold], [other])
    assert gold not in texts(other, [other], [gold])


def test_huge_digit_strings_are_treated_as_text():
    assert texts("9" * 5000)[0] == "9" * 5000 + "x"


def changed(completion, golds, others=(), answers=None) -> list:
    return [m.completion for m in mutants(completion, golds, list(others), answers)]


def test_only_the_answer_changes():
    text = "<reasoning>2+2 is 4, <answer>9</answer>?</reasoning>\n<answer>4</answer>"
    first = mutants(text, ["4"], [])[0]
    assert (first.completion, first.old, first.new) == (text[:-10] + "5</answer>", "4", "5")
    assert changed("so it is 3, no, 4.", ["4"])[0] == "so it is 3, no, 5."


def test_without_a_final_answer_only_the_gold_is_replaced():
    assert changed("4 is it (see step 2): 4", ["4"])[0] == "5 is it (see step 2): 5"
    assert changed("Step 1: think.\nParis", ["Paris"], ["Paris", "Rome"])[0] == "Step 1: think.\nRome"
    assert changed("Area is 1,500 m^2", ["1500"])[0] == "Area is 1,501 m^2"
    for text in ("no number here", "it is 5", "it is 14", "on 2024-04-15", "at 4:30", "t4", "it is -4"):
        assert changed(text, ["4"]) == []
    assert changed("level 3: blue", ["blue", "3"], ["red"], ["blue"])[0] == "level 3: red"  # 3 is no gold of the reward


def test_inside_an_answer_the_gold_is_what_changes():
    assert changed("<answer>B) 12</answer>", ["B"], ["A", "C"])[:2] == ["<answer>A) 12</answer>", "<answer>C) 12</answer>"]
    assert changed(r"\boxed{15\text{ m}^2}", ["15"])[0] == r"\boxed{16\text{ m}^2}"


def test_json_completions_stay_json():
    got = changed('{"answer": 15, "confidence": 0.9}', ["15"])
    assert got[0] == '{"answer": 16, "confidence": 0.9}'
    assert got[-2:] == ['{"answer": "1015, 15, -16", "confidence": 0.9}', '{"answer": "", "confidence": 0.9}']
    assert changed('[{"city": "Paris", "n": 1}]', ["Paris"], ["Rome"])[0] == '[{"city": "Rome", "n": 1}]'
    assert changed('{"answer": 7}', ["15"]) == []


def test_chat_completions_stay_chats_and_originals_untouched():
    chat = [{"role": "assistant", "content": "call"}, {"role": "tool", "content": "4"}, {"role": "assistant", "content": "<answer>4</answer>"}]
    mutant = changed(chat, ["4"])[0]
    assert mutant[2]["content"] == "<answer>5</answer>" and mutant[:2] == chat[:2]
    assert chat[2]["content"] == "<answer>4</answer>"


def test_invalid_json_breaks_the_schema():
    assert invalid_json('{"type": "object", "required": ["a"]}') == ["{}", "[]", "null"]
    assert invalid_json({"type": "array"}) == ["{}", "null", '"x"']
    assert invalid_json({}) == [] and invalid_json("no schema") == []


def test_calls_are_changed_in_the_form_in_which_they_were_written():
    text = '<think>a</think><tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    made = {m.new: m.completion for m in call_mutants(text)}
    assert made["another value"] == text.replace('"x": 1', '"x": 8') and made["a call twice"].count("<tool_call>") == 2
    call = text.removeprefix("<think>a</think>")
    assert made["the calls again after thinking again"] == f"{text}\n<think>To be sure, once more.</think>\n{call}"
    chat = [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": '{"x": "a"}'}}]}]
    made = {m.new: m.completion for m in call_mutants(chat)}
    assert made["another function"][0]["tool_calls"][0]["function"]["name"] == "f_other" and '"aqxv"' in str(made["another value"])
    assert made["no call"] == [{"role": "assistant", "content": "I will not call anything."}] and call_mutants("no call here") == []
    assert "the calls again after thinking again" not in made
