"""What must hold for every reward and any text."""

from __future__ import annotations

import itertools
import math
import pickle
import threading
import time

import pytest
from grpo_rlvr import rewards
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TAGS = [
    "<reasoning>",
    "</reasoning>",
    "<answer>",
    "</answer>",
    "<think>",
    "</think>",
    "```",
    '{"n": 1}',
    "<tool_call>",
    "</tool_call>",
    '{"name": "f", "arguments": {}}',
    '{"name": "f"',
    "[",
    " or B",
    "The answer is ",
    "C",
]
MATHS = ["\\boxed{", "}", "{", "\\frac", "\\sqrt", "^", "_", *"()[],", "1", "23", "x", "\\text{", "cm", "%", "\\pm", "=", "<", "\\cup", "-", "/"]
ODD = [" ", "\n", "²", "₂", "é", "\ud800", "\x00"]
PIECES = TAGS + MATHS + ODD
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=15).map("".join), st.text(max_size=40))
GOLDS = {"answer": "x^2+1", "output_schema": {"type": "object"}, "expected_calls": [{"name": "f", "arguments": {}}]}
REWARDS = [
    rewards.format_reward, rewards.partial_format_reward, rewards.correctness_reward, rewards.math_reward, rewards.schema_reward,
    rewards.choice_reward, rewards.tool_call_reward,
]  # fmt: skip
HARD = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def run(reward, completions, golds=None):
    wanted = {**GOLDS, "answer": "C"} if reward.__name__ == "choice_reward" else GOLDS
    return reward(completions=completions, **{c: golds or [wanted[c]] * len(completions) for c in reward.columns})


@pytest.mark.parametrize("reward", REWARDS, ids=lambda r: r.__name__)
@HARD
@given(texts=st.lists(TEXTS, min_size=1, max_size=4), data=st.data())
def test_any_text_scores_and_a_batch_is_its_items_in_any_order(reward, texts, data):
    scores = run(reward, texts)
    assert all(s is not None and 0 <= s <= 1 for s in scores)
    assert scores == [run(reward, [t])[0] for t in texts]
    order = data.draw(st.permutations(range(len(texts))))
    assert run(reward, [texts[i] for i in order]) == [scores[i] for i in order]
    assert run(reward, [[{"role": "assistant", "content": t}] for t in texts]) == scores


@HARD
@given(text=TEXTS, gold=TEXTS)
def test_any_gold_gives_a_score_or_none(text, gold):
    for reward in (rewards.correctness_reward, rewards.math_reward, rewards.choice_reward):
        (value,) = run(reward, [f"<answer>{text}</answer>"], [gold])
        assert value in (0.0, 1.0, None)
        assert (value is None) <= (reward.gold_problem({"answer": gold}) is not None)


@HARD
@given(text=TEXTS)
def test_partial_is_one_exactly_where_format_is(text):
    for prefilled in (False, True):
        whole, part = (run(make(prefilled=prefilled), [text])[0] for make in (rewards.make_format_reward, rewards.make_partial_format_reward))
        assert (part == 1.0) == (whole == 1.0)


@pytest.mark.parametrize("tag", ["<reasoning>", "</reasoning>", "<answer>", "</answer>"])
def test_repeating_a_tag_never_pays(tag):
    base = "<reasoning>a</reasoning><answer>b</answer>"
    for cut in range(0, len(base) + 1, 3):
        if tag in base[:cut]:
            before, after = run(rewards.partial_format_reward, [base[:cut], base[:cut] + tag])
            assert after <= before


@HARD
@given(st.fractions(max_denominator=10**6), st.fractions(max_denominator=10**6))
def test_numbers_are_compared_exactly(a, b):
    text = f"\\boxed{{\\frac{{{a.numerator}}}{{{a.denominator}}}}}"
    assert run(rewards.math_reward, [text], [f"{b.numerator}/{b.denominator}"])[0] == float(a == b)


@pytest.mark.parametrize("content", [None, 7, [], [None], {}, [{"role": "assistant"}], [{"content": {"text": 3}}], b"x", math.nan])
@pytest.mark.parametrize("reward", REWARDS, ids=lambda r: r.__name__)
def test_odd_completions_score_zero(reward, content):
    assert run(reward, [content]) == [0.0]


@pytest.mark.parametrize("reward", REWARDS, ids=lambda r: r.__name__)
def test_pickled_rewards_score_the_same(reward):
    copy = pickle.loads(pickle.dumps(reward))
    texts = ["<reasoning>r</reasoning><answer>1+x^2</answer>", '{"n": 1}', ""]
    assert run(copy, texts) == run(reward, texts) and copy.__name__ == reward.__name__


def test_no_repeated_pair_of_pieces_makes_reading_slow():
    words = ["a", "ab ", "5 a", " per ", "cm", " and ", "e", "x 10^", "\\text{a}", "\\sin", "{1}", "°", "'", "|", "$", "**", ".", '"', *MATHS]
    start = time.perf_counter()
    for first, second in itertools.product(words, words):
        text = ("5 " + (first + second) * 100)[:300]
        for answer in (text, text + "!"):
            rewards.math_reward._without_algebra(answer, rewards.math_reward.read_gold("3"))
    assert time.perf_counter() - start < 60  # a pattern that backtracks would take forever on one of them


def test_a_run_of_accents_and_a_list_of_objects_cost_linear_time():
    start = time.perf_counter()
    assert run(rewards.correctness_reward, ["<answer>a" + "\u0316\u0301" * 300_000 + "</answer>"], ["abc"]) == [0.0]
    objects = "[" + ",".join(f'{{"a": {i}}}' for i in range(20_000)) + "]"
    assert run(rewards.schema_reward, [objects], [{"type": "array", "uniqueItems": True}]) == [1.0]
    assert time.perf_counter() - start < 20  # hours where each is compared with each


def test_unique_items_compare_as_json():
    lists = [
        '[{"a": 1}, {"a": 1.0}]',
        '[{"a": 1, "b": 2}, {"b": 2, "a": 1}]',
        "[[1], [1]]",
        "[1, true]",
        "[[1], [true]]",
        '["1", 1]',
        '[0, false, null, ""]',
    ]
    assert run(rewards.schema_reward, lists, [{"uniqueItems": True}] * 7) == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]


def test_accents_are_compared_in_one_form():
    assert run(rewards.correctness_reward, ["<answer>caf\u0065\u0301  \u1f82</answer>"], ["café \u03b1\u0313\u0300\u0345"]) == [1.0]


def test_names_are_unique():
    assert len({r.__name__ for r in REWARDS}) == len(REWARDS)


def test_empty_batch():
    assert [run(r, []) for r in REWARDS] == [[]] * len(REWARDS)


def test_threads_share_the_rewards():
    results: list = [None] * 8

    def work(i: int) -> None:
        results[i] = run(rewards.math_reward, [f"\\boxed{{\\ln x+{k}}}" for k in range(8)], [f"{i}+\\ln x"] * 8)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [[float(k == i) for k in range(8)] for i in range(8)]
