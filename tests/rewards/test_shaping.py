"""The length penalty around a reward, and the overlong punishment."""

from __future__ import annotations

import math
import pickle
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import CONFIG, sums, write_rows
from grpo_rlvr.config import load_config
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.fingerprint import reward_parts
from grpo_rlvr.rewards import (
    build_rewards,
    correctness_reward,
    format_reward,
    make_overlong_reward,
    math_reward,
    score_all,
    with_length_penalty,
)
from hypothesis import given
from hypothesis import strategies as st


class Fixed:
    def __init__(self, values):
        self.values = values

    def __call__(self, completions, **columns):
        return self.values


def lowered(score, tokens: int, target: int = 100, **options):
    (value,) = with_length_penalty(Fixed([score]), target, **options)(completions=["x"], completion_ids=[list(range(tokens))])
    return value


def test_a_positive_score_falls_in_a_line_to_its_floor():
    assert [lowered(1.0, n) for n in (0, 100, 150, 200, 10_000)] == [1.0, 1.0, 0.75, 0.5, 0.5]
    assert [lowered(0.5, n, max_penalty=0.2, span_tokens=10) for n in (100, 105, 110, 111)] == [0.5, 0.45, 0.4, 0.4]


@given(
    st.one_of(st.none(), st.floats(-10, 10)),
    st.integers(0, 5000),
    st.integers(1, 600),
    st.floats(0.01, 0.99),
    st.one_of(st.none(), st.integers(1, 999)),
)
def test_order_is_kept_for_any_setting(score, tokens, target, max_penalty, span):
    value = lowered(score, tokens, target, max_penalty=max_penalty, span_tokens=span)
    if score is None or score <= 0 or tokens <= target:
        assert value == score
    else:
        assert 0 < value <= score and (value >= score * (1 - max_penalty) * 0.999999)
        assert lowered(score, tokens + 50, target, max_penalty=max_penalty, span_tokens=span) <= value


def test_tokens_are_counted_and_words_only_without_them():
    reward = with_length_penalty(Fixed([1.0]), 10)
    many_words, one_word = ["a " * 50], ["a" * 500]
    assert reward(completions=many_words, completion_ids=[[1] * 5]) == [1.0]
    assert reward(completions=one_word, completion_ids=[[1] * 50]) == [0.5]
    assert reward(completions=one_word, completion_token_counts=[50]) == [0.5]
    assert reward(completions=many_words) == [0.5] and reward(completions=one_word) == [1.0]
    chat = [[{"role": "assistant", "content": "a " * 8}, {"role": "tool", "content": "b " * 99}, {"role": "assistant", "content": "a " * 7}]]
    assert reward(completions=chat) == [0.75]
    with pytest.raises(ValueError, match="completion_ids has 2 values for 1"):
        reward(completions=["x"], completion_ids=[[1], [2]])


@pytest.mark.parametrize("result", [[1.0], 1.0, None, [1.0, math.nan], [1.0, math.inf], ["1", "0"], "10"])
def test_a_bad_result_inside_is_an_error_with_the_name_inside(result):
    def helpfulness(completions, **columns):
        return result

    with pytest.raises(ValueError, match="helpfulness"):
        with_length_penalty(helpfulness, 10)(completions=["a", "b"])


def test_coroutines_generators_and_columns_pass_through():
    async def later(completions, answer, **columns):
        return (float(c == a) for c, a in zip(completions, answer, strict=True))

    assert with_length_penalty(later, 1)(completions=["x y", "z"], answer=["x y", "x"]) == [0.5, 0.0]


def test_names_tell_what_is_wrapped_and_are_not_shared():
    wrapped = [with_length_penalty(r, n) for r in (format_reward, correctness_reward, with_length_penalty(math_reward, 5)) for n in (10, 20)]
    assert wrapped[2].__name__ == "correctness_reward_within_10_tokens"
    wrapped += [
        with_length_penalty(lambda completions, **k: [1.0], 10),
        with_length_penalty(partial(sums, 1), 10),
        with_length_penalty(Fixed([1.0]), 10),
    ]
    names = [w.__name__ for w in wrapped]
    assert len(set(names)) == len(names) and not any("<" in n for n in names)
    assert names[-2:] == ["sums_within_10_tokens", "Fixed_within_10_tokens"]


def test_a_wrapper_is_as_its_reward_and_pickles():
    reward = pickle.loads(pickle.dumps(with_length_penalty(correctness_reward, 3)))
    assert (reward.columns, reward.correctness) == (("answer",), True)
    assert "missing" in reward.gold_problem({}) and reward.gold_problem({"answer": "7"}) is None
    assert reward(completions=["<answer>7</answer> a b c d e f", "<answer>8</answer>"], answer=["7", "7"]) == [0.5, 0.0]
    assert reward(completions=["<answer>7</answer>"], answer=[""]) == [None] and reward.unscored == 1
    assert with_length_penalty(Fixed([1.0]), 3).gold_problem({}) is None


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"target_tokens": 0}, "target_tokens"), ({"target_tokens": 1.5}, "target_tokens"), ({"target_tokens": True}, "target_tokens"),
        ({"max_penalty": 1}, "max_penalty"), ({"max_penalty": 0}, "max_penalty"), ({"max_penalty": "x"}, "max_penalty"),
        ({"span_tokens": 0}, "span_tokens"), ({"reward": 3}, "cannot be called"),
    ],
)  # fmt: skip
def test_options_are_checked(options, part):
    with pytest.raises(UserError, match=part):
        with_length_penalty(**{"reward": format_reward, "target_tokens": 10, **options})


def overlong(limit: int, cache: int, *lengths: int) -> list:
    return make_overlong_reward(limit, cache)(completions=["x"] * len(lengths), completion_ids=[[0] * n for n in lengths])


def test_overlong_is_the_formula_of_the_paper():
    assert overlong(100, 20, 0, 80, 85, 90, 100, 101, 999) == [0.0, 0.0, -0.25, -0.5, -1.0, -1.0, -1.0]
    assert overlong(20480, 4096, 16384, 18432, 20480) == [0.0, -0.5, -1.0]
    for limit, cache in [(0, 1), (10, 0), (10, 11), (10, 2.5), ("10", 2)]:
        with pytest.raises(UserError, match="max_completion_length|cache"):
            make_overlong_reward(limit, cache)


@given(st.integers(1, 500), st.data())
def test_overlong_agrees_with_trl(limit, data):
    get_soft_overlong_punishment = pytest.importorskip("trl.rewards").get_soft_overlong_punishment
    cache, length = data.draw(st.integers(1, limit)), data.draw(st.integers(0, 2 * limit))
    assert overlong(limit, cache, length) == pytest.approx(get_soft_overlong_punishment(limit, cache)(completion_ids=[[0] * length]))


def config(folder: Path, rewards: str):
    write_rows(folder / "train.jsonl", sums(4))
    (folder / "config.yaml").write_text(CONFIG.replace("  - {use: exact}", rewards), encoding="utf-8")
    return load_config(folder / "config.yaml")


USER = "def marks(completions, answer, scale=1.0, **columns):\n    return [scale * (c == a) for c, a in zip(completions, answer)]\n"
WRAPPED = "  - {use: length, args: {use: 'mine.py:marks', args: {scale: 0.5}, target_tokens: 2}}"


def test_a_config_wraps_builtins_and_own_functions(tmp_path):
    (tmp_path / "mine.py").write_text(USER)
    own, fmt = build_rewards(
        config(tmp_path, WRAPPED + "\n  - {use: length, name: short, args: {use: format, args: {prefilled: true}, target_tokens: 9}}")
    )
    assert (own.name, own.columns, own.required) == ("marks_within_2_tokens", ("answer",), True)
    assert "mine.py" in {p.name for p in own.source_files} and "shaping.py" in {p.name for p in own.source_files}
    assert (fmt.name, fmt.required) == ("short", False)
    scores = score_all([own, fmt], ["a", "r</reasoning><answer>a</answer>"], completion_ids=[[1] * 4, [1] * 9], answer=["a", "b"])
    assert scores.values == {"marks_within_2_tokens": [0.25, 0.0], "short": [0.0, 1.0]}
    (right,) = build_rewards(config(tmp_path, "  - {use: length, args: {use: exact, target_tokens: 9}}"))
    assert right.required and right.gold_problem({"answer": ""})


def test_the_reward_inside_keeps_its_file_wherever_the_config_goes(tmp_path):
    (tmp_path / "mine.py").write_text(USER)
    loaded = config(tmp_path, WRAPPED)
    inside = loaded.resolved().rewards[0].args
    assert inside["use"] == f"{tmp_path / 'mine.py'}:marks" and inside["args"] == {"scale": 0.5}
    parts = [reward_parts(c, build_rewards(c)) for c in (loaded, loaded.resolved())]
    assert parts[0] == parts[1] and "mine.py" in parts[0]["reward_code"]


@pytest.mark.parametrize(
    ("section", "part"),
    [
        ("{use: length, args: {use: exact}}", "args.target_tokens"),
        ("{use: length, args: {target_tokens: 5}}", "args.use"),
        ("{use: length, args: {use: exakt, target_tokens: 5}}", "did you mean 'exact'"),
        ("{use: length, args: {use: math, args: {percnt: x}, target_tokens: 5}}", "no option 'percnt'"),
        ("{use: length, args: {use: [exact], target_tokens: 5}}", "the name of the reward inside"),
        ("{use: length, args: {use: exact, target_tokens: 5, max_penalty: 2}}", "max_penalty is 2"),
        ("{use: overlong}", "args.cache"),
        ("{use: overlong, args: {cache: 2, max_completion_length: 99}}", "max_completion_length 8 cuts"),
        ("{use: overlong, args: {cache: 9}}", "from 1 to max_completion_length .8"),
    ],
)
def test_mistakes_in_a_config_are_named(tmp_path, section, part):
    with pytest.raises(UserError, match=part):
        build_rewards(config(tmp_path, "  - " + section))


def test_overlong_takes_the_limit_of_the_trainer(tmp_path):
    (reward,) = build_rewards(config(tmp_path, "  - {use: overlong, args: {cache: 4}}"))
    assert (reward.name, reward.required) == ("overlong", False)
    assert reward.function(completions=["x"] * 3, completion_ids=[[1] * n for n in (4, 6, 8)]) == [0.0, -0.5, -1.0]
    with pytest.raises(UserError, match="not known"):
        build_rewards(
            SimpleNamespace(rewards=(SimpleNamespace(use="overlong", args={"cache": 4}, weight=1, name=None, required=None),), base=tmp_path)
        )
