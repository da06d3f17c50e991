"""Several epochs as one list of prompts: the same run as TRL's, and one that can be resumed anywhere."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from conftest import sums
from grpo_rlvr.config import Config, DataSection, ModelSection, RewardSection
from grpo_rlvr.training.epochs import later_epochs, lay_out, orders, total_steps
from grpo_rlvr.training.setup import Setup

BASE = {"per_device_train_batch_size": 8, "num_generations": 4, "seed": 7}


def setup(rows: int, **grpo) -> Setup:
    config = Config(
        ModelSection("m"), DataSection("train.jsonl"), (RewardSection("exact"),), grpo={**BASE, **grpo}, path=Path("/nowhere/config.yaml")
    )
    return Setup(config, rows, 1)


def rows(count: int) -> list[dict]:
    return [{"row_id": f"train:{i}", **row} for i, row in enumerate(sums(count))]


@pytest.mark.parametrize("count, epochs, accumulation, iterations", [(7, 3, 1, 1), (10, 2, 3, 1), (9, 2.5, 2, 2), (8, 4, 1, 2)])
def test_the_layout_is_the_order_of_trls_own_sampler(count, epochs, accumulation, iterations):
    trl = pytest.importorskip("trl.trainer.utils")
    s = setup(count, num_train_epochs=epochs, gradient_accumulation_steps=accumulation, num_iterations=iterations)
    laid = lay_out(s, rows(count), {"a": 1})
    sampler = trl.RepeatSampler(range(count), 4, s.prompts, s.cycle, True, 7)
    # One pass over the sampler is an epoch; every prompt stands there group x cycle times.
    theirs = [i for _ in range(math.ceil(epochs)) for i in list(sampler)[::4]]
    each = s.prompts * s.cycle
    theirs = [i for at in range(0, len(theirs), each) for i in theirs[at : at + s.prompts]]
    ours = [int(r.partition(":")[2]) for r in laid.dataset["row_id"]]
    assert ours == theirs[: len(ours)] and len(ours) >= int(epochs) * (count // s.prompts) * s.prompts
    assert laid.settings == {"a": 1, "shuffle_dataset": False, "max_steps": total_steps(s), "num_train_epochs": 1}
    assert laid.epochs == len(ours) / s.prompts / (count // s.prompts)


def test_what_needs_no_layout_stays_as_it_is():
    for s in (setup(10, num_train_epochs=1), setup(10, max_steps=5), setup(10, shuffle_dataset=False), setup(10, save_strategy="epoch")):
        laid = lay_out(s, rows(10), {"a": 1})
        assert (laid.settings, laid.epochs, laid.dataset["row_id"]) == ({"a": 1}, 1.0, [f"train:{i}" for i in range(10)])
    assert lay_out(setup(10, max_steps=6), rows(10), {}).settings["max_steps"] == 6


def test_orders_differ_by_epoch():
    order = orders(20, 18, 2, 0)
    assert len(order) == 36 and order[:18] != order[18:] and len(set(order[:18])) == 18


def test_only_a_strategy_by_epoch_gets_a_note():
    (finding,) = later_epochs(setup(10, save_strategy="epoch"))
    assert "3 times" in finding.message and finding.fix.startswith("set save_strategy: steps")
    assert later_epochs(setup(10)) == later_epochs(setup(10, save_strategy="epoch", num_train_epochs=1)) == []
    assert later_epochs(setup(10, save_strategy="no", eval_strategy="epoch")) == []
