"""Option letters in words: what is left out of the reading changes no verdict, and long text is cut off where it is said to be."""

from __future__ import annotations

from grpo_rlvr.rewards import choice_reward
from grpo_rlvr.rewards.choice_tokens import seen_text, tokens_of
from grpo_rlvr.rewards.choice_words import _declared, declared_letters
from grpo_rlvr.rewards.choices import MAX_LENGTH
from hypothesis import given, settings
from hypothesis import strategies as st

WORDS = [
    "The answer is", "the answer is:",
    "answer is", "I choose", "not", "is wrong", "is correct", "so", "or", "and", "option", "A", "B", "C", "(D)", "**B**",
    "I", "A.", "B)", "C++", "U.S.",
       "isn't", "because", "it is", ".", "!", "?", ";", ":", ",", "\n", "-", "\\text{B}", "x_C", "A's", "é", "Ä", "3", "the", "most",
    "likely", "first", "must be",
]  # fmt: skip
ENDS = st.sampled_from(["", "", "The answer is B", "so the answer is (C).", "the answer is: **D**", "answer is A", "the answer is B\n"])
TEXTS = st.tuples(st.lists(st.sampled_from(WORDS), max_size=30), ENDS, st.sampled_from([" ", " ", ""])).map(lambda t: t[2].join([*t[0], t[1]]))


@settings(max_examples=600, deadline=None)
@given(TEXTS)
def test_the_tokens_that_are_left_out_change_nothing(text):
    assert declared_letters(text) == _declared(text, tokens_of(text))


def test_text_before_the_first_capital_and_behind_the_last_is_not_cut():
    text = "word " * 50 + "end. The answer is B, " + "as we saw " * 50
    assert len(tokens_of(*seen_text(text))) < 20 < len(tokens_of(text))
    assert seen_text("no capital stands alone here, Not One. " * 9) == ("", 0)


def test_only_the_end_of_a_long_text_is_read():
    filler = "so we go on. " * (MAX_LENGTH // 13 + 1)
    texts = [
        "The answer is A. " + filler + "The answer is B.",
        "The answer is B. " + filler,
        f"<answer>B{filler}</answer>",
        f"{filler}<answer>B</answer>",
    ]
    assert choice_reward(completions=texts, answer=["B"] * 4) == [1.0, 0.0, 0.0, 1.0]


def test_letters_of_other_alphabets_forms():
    texts = ["<answer>Ｂ</answer>", "The answer is （Ｂ）.", "\\boxed{𝐁}", "Ⓑ", "The answer is B\u0301."]
    assert choice_reward(completions=texts, answer=["B"] * 5) == [1.0] * 4 + [0.0]
