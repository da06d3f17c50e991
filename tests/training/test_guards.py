"""Rewards that raise or return no numbers: what is kept, when the run goes on, when it stops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from grpo_rlvr.errors import CheckFailed, UserError
from grpo_rlvr.rewards import BuiltReward
from grpo_rlvr.training.adapter import RewardBatch
from grpo_rlvr.training.guards import SAMPLES, FailedBatch, RewardFailures


class Moody:
    """Raises, or returns what it is told to."""

    def __init__(self):
        self.answer = [1.0, 0.0]

    def __call__(self, completions, **columns):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return list(self.answer)


def make(tmp_path, limit=2, required=True, others=()):
    moody = Moody()
    rewards = [BuiltReward("moody", moody, required=required, source_files=(Path(__file__),)), *others]
    failures = RewardFailures(rewards, limit, FailedBatch(tmp_path))
    return moody, RewardBatch(rewards, 0.5, failures)


def score(batch, completions=("a", "b"), row="train", **columns):
    count = len(completions)
    arguments = {"row_id": [f"{row}:{i}" for i in range(count)], "prompts": ["p"] * count, **columns}
    return batch.column("moody", list(completions), arguments)


def saved(tmp_path):
    return json.loads((tmp_path / "failed-batch.json").read_text())


def test_a_reward_that_raises_gives_no_values_and_the_batch_is_kept(tmp_path, capsys):
    moody, batch = make(tmp_path)
    assert score(batch) == [1.0, 0.0]
    moody.answer = RuntimeError("verifier \x1b[31mdown")
    assert score(batch, answer=["4", "5"]) == [None, None]
    kept = saved(tmp_path)
    assert (kept["schema"], kept["kind"], kept["reward"], kept["batch"]) == ("grpo-rlvr/failed-batch/1", "exception", "moody", 2)
    assert "verifier" in kept["problem"] and "test_guards.py:" in kept["place"]
    assert kept["samples"][1]["columns"] == {"answer": "5"} and kept["samples"][1]["completion"] == "b"
    assert "\x1b" not in capsys.readouterr().err
    # It works again: the count begins anew.
    moody.answer = [0.5, 0.5]
    assert score(batch) == [0.5, 0.5]
    assert batch.failures.in_a_row["moody"] == 0 and batch.failures.total == {"moody": 1}


def test_it_stops_after_as_many_batches_in_a_row_as_the_config_allows(tmp_path):
    moody, batch = make(tmp_path, limit=2)
    score(batch)
    moody.answer = SystemExit(3)
    assert [score(batch), score(batch)] == [[None, None]] * 2
    with pytest.raises(UserError, match=r"moody: failed on 3 batches in a row \(run.reward_failures 2\): SystemExit") as error:
        score(batch)
    assert error.value.kind == "reward" and "failed-batch.json" in str(error.value)


@pytest.mark.parametrize("row", ["train", "eval"])
def test_a_reward_that_never_worked_stops_the_run_at_once(tmp_path, row):
    moody, batch = make(tmp_path)
    score(batch, row="eval" if row == "train" else "train")  # that it works on the other rows shows nothing
    moody.answer = KeyError("answer")
    with pytest.raises(UserError, match="failed on the first batch: KeyError"):
        score(batch, row=row)


def test_a_style_reward_that_raises_is_left_out_and_the_others_count(tmp_path):
    right = BuiltReward("right", lambda completions, **columns: [1.0, 0.0], required=True)
    moody, batch = make(tmp_path, required=False, others=[right])
    score(batch)
    moody.answer = RuntimeError("x")
    assert score(batch) == [None, None]
    assert batch._columns["right"] == [1.0, 0.0]


@pytest.mark.parametrize(
    "value, words", [(float("nan"), "value 1 is nan"), (float("inf"), "value 1 is inf"), (1e38, "beyond 1e+18"), ("x", "not a number")]
)
def test_values_that_are_no_numbers_stop_the_run_with_the_sample(tmp_path, value, words):
    moody, batch = make(tmp_path)
    moody.answer = [0.0, value]
    with pytest.raises(UserError) as error:
        score(batch)
    assert "moody" in str(error.value) and words in str(error.value) and "failed-batch.json" in str(error.value)
    assert saved(tmp_path)["kind"] == "value"
    if value != "x":
        assert saved(tmp_path)["samples"][0]["index"] == 1  # the one that matters comes first


def test_what_is_kept_is_bounded(tmp_path):
    moody, batch = make(tmp_path)
    moody.answer = [float("nan")] * 100
    with pytest.raises(UserError):
        score(batch, completions=["x" * 10**6] * 100, gold=["y" * 10**5] * 100)
    assert len(saved(tmp_path)["samples"]) == SAMPLES
    assert (tmp_path / "failed-batch.json").stat().st_size < 100_000


def test_a_gradient_that_is_not_finite_ends_the_run_before_the_update(tmp_path):
    torch = pytest.importorskip("torch")
    from types import SimpleNamespace

    from grpo_rlvr.training.callbacks import FiniteCallback

    moody, batch = make(tmp_path)
    moody.answer = [0.1, -7.0]
    score(batch)
    model = torch.nn.Linear(2, 2)
    args, state = SimpleNamespace(fp16=False, device="cpu"), SimpleNamespace(global_step=41)
    callback = FiniteCallback(batch)
    model.weight.grad = torch.ones(2, 2)
    callback.on_pre_optimizer_step(args, state, None, model=model)
    model.weight.grad[0, 1] = float("nan")
    with pytest.raises(CheckFailed, match="gradient of step 42 is not finite"):
        callback.on_pre_optimizer_step(args, state, None, model=model)
    kept = saved(tmp_path)
    assert kept["kind"] == "gradient" and kept["samples"][0]["total"] == -7.0
    # Clipping by an infinite norm makes every gradient 0: only the logged norm shows it.
    callback.on_log(args, state, None, logs={"grad_norm": 3.0})
    with pytest.raises(CheckFailed, match="gradient of step 41 is not finite"):
        callback.on_log(args, state, None, logs={"grad_norm": float("inf")})
    args.fp16 = True  # whose scaling meets infinity by design
    callback.on_pre_optimizer_step(args, state, None, model=model)
