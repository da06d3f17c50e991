"""Golden cases: what each built-in gives for one completion, with the reason beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from grpo_rlvr import rewards
from grpo_rlvr.errors import GoldError
from grpo_rlvr.rewards.registry import REGISTRY

ROWS = [json.loads(line) for line in (Path(__file__).parents[1] / "data" / "reward_golden.jsonl").read_text(encoding="utf-8").splitlines()]


def score(row: dict):
    reward = REGISTRY[row["kind"]].make(**row["options"])
    return reward(completions=[row["completion"]], prompts=["p"], trainer_state=None, **{c: [row["gold"]] for c in reward.columns})[0]


@pytest.mark.parametrize("row", ROWS, ids=[f"{i}-{r['kind']}-{r['why']}".replace(" ", "_") for i, r in enumerate(ROWS)])
def test_golden(row):
    if row["expect"] == "gold_error":
        with pytest.raises(GoldError, match="row 0"):
            score(row)
    else:
        assert score(row) == (None if row["expect"] is None else pytest.approx(row["expect"]))


def test_unreadable_gold_is_named_and_counted():
    reward = rewards.make_math_reward()
    assert reward(completions=["\\boxed{1}"] * 3, answer=["1", "", None]) == [1.0, None, None]
    assert reward.unscored == 2
    assert "empty" in reward.gold_problem({"answer": " "}) and "missing" in reward.gold_problem({}) and reward.gold_problem({"answer": "1"}) is None
    with pytest.raises(GoldError, match="row 1: .*null"):
        rewards.schema_reward(completions=["1", "1"], output_schema=[{"type": "integer"}, None])
    assert "null" in rewards.schema_reward.gold_problem({"output_schema": None})


def test_one_schema_may_be_for_all_completions():
    schema = {"type": "integer"}
    for column in (schema, json.dumps(schema)):
        assert rewards.schema_reward(completions=["1", "x", "2"], output_schema=column) == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("answers", [["7"], "7", {"a": 1, "b": 2}, None])
def test_a_column_that_does_not_fit_is_an_error(answers):
    columns = {} if answers is None else {"answer": answers}
    with pytest.raises(ValueError, match="answer"):
        rewards.correctness_reward(completions=["a", "b"], **columns)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        ("math", {"percent": "x"}),
        ("math", {"decimal_comma": "yes"}),
        ("math", {"cpu_s": 0}),
        ("math", {"finished": "yes"}),
        ("schema", {"fence": "x"}),
        ("choice", {"multiple": 1}),
        ("tool_calls", {"ordered": "yes"}),
    ],
)
def test_options_are_checked(make, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        REGISTRY[make].make(**options)
