"""What counts as the text and the final answer of a completion."""

from __future__ import annotations

import time

import pytest
from grpo_rlvr.completions import after_reasoning, answer_span, box_span, completion_text, final_answer, strip_special_tokens
from hypothesis import given
from hypothesis import strategies as st

PIECES = ["<answer>", "</answer>", "<think>", "</think>", "\\boxed", "{", "}", "\\", "#", "a", " ", "\n", "</s>"]


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("plain", "plain"),
        ([{"role": "assistant", "content": "a"}], "a"),
        ([{"role": "assistant", "content": "a"}, {"role": "tool", "content": "t"}, {"role": "assistant", "content": "b"}], "b"),
        ([{"role": "assistant", "content": "a"}, {"role": "tool", "content": "t"}], "a"),
        ([{"role": "user", "content": "u"}], ""),
        ([{"role": "assistant", "content": None, "tool_calls": []}], ""),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}], "ab"),
        ({"role": "assistant", "content": "a"}, "a"),
        (None, ""),
        (7, ""),
        ([None, 3, "x"], ""),
    ],
)
def test_text_of_every_form(completion, text):
    assert completion_text(completion) == text


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>a</answer>", "a"),
        ("<answer> a\n</answer>", "a"),
        ("<answer>a</answer> <answer>b</answer>", "b"),
        ("<answer>a</answer> <answer>b", "a"),
        ("<answer>a <answer>b</answer>", "b"),
        ("<answer></answer>", ""),
        (r"\boxed{a} <answer>b</answer> \boxed{c}", "b"),
        (r"<answer>it is \boxed{a}</answer>", "a"),
        (r"<answer>it is \boxed{a</answer>", None),
        (r"\boxed{a} \fbox{b}", "b"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {\{1\}}", r"\{1\}"),
        (r"\boxed{a} \boxed{b", None),
        (r"\boxed{a} \boxedup", "a"),
        ("x\n#### 72\nbye", "72"),
        ("nothing", None),
        ("</answer><answer>", None),
        ("<think><answer>a</answer></think>", None),
        ("<think><answer>a</answer></think><answer>b</answer>", "b"),
        ("<think>x <answer>a</answer>", None),
        ("x <answer>a</answer></think><answer>b</answer>", "b"),
        ("<answer>a<|im_end|></answer>", "a"),
    ],
)
def test_final_answer_and_its_span(text, answer):
    assert final_answer(text) == answer
    span = answer_span(text)
    assert (span is None) == (answer is None)
    if span is not None:
        assert text[span[0] : span[1]] == answer


def test_a_swapped_answer_is_read_back():
    text = "<reasoning>4</reasoning>\n<answer> 4 </answer><|im_end|>"
    start, end = answer_span(text)
    assert final_answer(text[:start] + "5" + text[end:]) == "5"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>a</think> b", " b"),
        ("a</think>b", "b"),
        ("<think>a", ""),
        ("a", "a"),
        ("<reasoning>a</reasoning>b<think>c", "b"),
        ("<think>a</think>b</think>c", "c"),
    ],
)
def test_after_reasoning(text, rest):
    assert after_reasoning(text) == rest


def test_special_tokens_go_at_the_ends_only():
    assert strip_special_tokens("<s> a</s>b <|im_end|>\n<|endoftext|>") == "a</s>b"


@pytest.mark.parametrize("piece", ["<answer>", "</answer>", "\\boxed{", "\\boxedx", "<think>", "</s>", "{", "####", "\\"])
def test_a_megabyte_takes_linear_time(piece):
    text = piece * (1_000_000 // len(piece))
    start = time.perf_counter()
    final_answer(text), box_span(text), strip_special_tokens(text), after_reasoning(text)
    assert time.perf_counter() - start < 5  # quadratic time would be minutes


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_spans_lie_in_the_text(text):
    span = answer_span(text)
    assert span is None or 0 <= span[0] <= span[1] <= len(text)
