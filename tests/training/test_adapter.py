from __future__ import annotations

from pathlib import Path

from grpo_rlvr.rewards import BuiltReward
from grpo_rlvr.training.adapter import RewardBatch


class Counting:
    def __init__(self, values):
        self.values, self.calls = values, 0

    def __call__(self, completions, **columns):
        self.calls += 1
        completions[0] = "changed by the reward"
        return list(self.values)


def reward(name, function, required):
    return BuiltReward(name=name, function=function, weight=1.0, required=required, columns=(), source_files=(Path(__file__),))


def test_a_batch_is_scored_once_and_a_missing_required_value_is_missing_everywhere():
    right, style = Counting([1.0, None, 0.0]), Counting([0.5, 0.5, None])
    batch = RewardBatch([reward("right", right, True), reward("style", style, False)], 0.5)
    first, second = batch.functions()
    assert (first.__name__, second.__name__) == ("right", "style")
    completions = ["a", "b", "c"]
    ids = ["eval:4", "train:1", "eval:5"]
    assert first(completions=completions, row_id=ids, prompts=["p"] * 3) == [1.0, None, 0.0]
    assert second(completions=completions, row_id=ids, prompts=["p"] * 3) == [0.5, None, None]
    assert (right.calls, style.calls) == (1, 1)
    assert completions == ["a", "b", "c"]
    assert batch.take_dropped_share() == 1.0
    assert batch.take_dropped_share() is None
    records = batch.take_held_out()
    assert [(r["row_id"], r["completion"], r["verdict"]) for r in records] == [("eval:4", "a", True), ("eval:5", "c", False)]
    assert batch.take_held_out() == []
    first(completions=["a", "b", "c"], row_id=ids, prompts=["p"] * 3)
    assert right.calls == 2
