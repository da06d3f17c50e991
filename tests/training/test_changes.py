"""A resumed run with other settings: what counts as a change, how it is shown, and that it is refused."""

from __future__ import annotations

import pytest
from grpo_rlvr.errors import UserError
from grpo_rlvr.training.changes import but_moves, changes, digest_of, matters, settle

BEFORE = {"grpo": {"learning_rate": 1e-6, "logging_steps": 1}, "rewards": [{"use": "math", "weight": 1.0}], "inspection": {"read": 60}}
NOW = {"grpo": {"learning_rate": 5e-6, "logging_steps": 5}, "rewards": [{"use": "math", "weight": 0.5}], "inspection": {"read": 50}}


def test_every_leaf_that_differs_is_found():
    found = changes(BEFORE, NOW)
    assert found == {
        "grpo.learning_rate": (1e-6, 5e-6), "grpo.logging_steps": (1, 5), "rewards[0].weight": (1.0, 0.5), "inspection.read": (60, 50)
    }  # fmt: skip
    assert [place for place in found if matters(place)] == ["grpo.learning_rate", "rewards[0].weight"]
    assert changes(BEFORE, BEFORE) == {}
    assert changes({"grpo": {}}, {"grpo": {"beta": 0.1}}) == {"grpo.beta": (None, 0.1)}
    assert changes({"rewards": [1]}, {"rewards": [1, 2]}) == {"rewards": ([1], [1, 2])}


def test_a_change_that_matters_is_refused_with_both_values(capsys):
    with pytest.raises(UserError) as refused:
        settle(changes(BEFORE, NOW), rows_changed=True, allowed=False)
    text = str(refused.value)
    assert "grpo.learning_rate: 1e-06 -> 5e-06" in text and "rewards[0].weight: 1.0 -> 0.5" in text and "training rows" in text
    assert "--allow-changes" in text and "logging_steps" not in text
    settle(changes(BEFORE, NOW), rows_changed=True, allowed=True)
    assert capsys.readouterr().err.count("changed since the run began") == 5
    settle({"grpo.logging_steps": (1, 5)}, rows_changed=False, allowed=False)
    assert "grpo.logging_steps: 1 -> 5" in capsys.readouterr().err


def test_rows_are_told_apart_by_content_and_order():
    assert digest_of([{"a": 1}, {"a": 2}]) == digest_of([{"a": 1}, {"a": 2}]) != digest_of([{"a": 2}, {"a": 1}])


def test_a_project_that_was_moved_is_the_same_run():
    was = {"data": {"train": "/a/p/train.jsonl", "eval": "/a/p/eval.jsonl"}, "rewards": [{"use": "/a/p/r.py:f"}], "run": {"folder": "/a/p/run"}}
    now = {"data": {"train": "/b/train.jsonl", "eval": "/b/other.jsonl"}, "rewards": [{"use": "/b/r.py:f"}], "run": {"folder": "/b/run"}}
    assert but_moves(changes(was, now), "/a/p/run", "/b/run") == {"data.eval": ("/a/p/eval.jsonl", "/b/other.jsonl")}
    # The run folder alone was moved.
    assert but_moves(changes(was, {**was, "run": {"folder": "/b/run"}}), "/a/p/run", "/b/run") == {}


def test_another_number_of_processes_is_another_run(capsys):
    settle({}, rows_changed=False, allowed=False, processes=(2, 2))
    settle({}, rows_changed=False, allowed=False, processes=(None, 2))  # a run of an earlier version
    with pytest.raises(UserError, match="processes that train: 2 -> 1"):
        settle({}, rows_changed=False, allowed=False, processes=(2, 1))
    settle({}, rows_changed=False, allowed=True, processes=(2, 1))
    assert "2 -> 1" in capsys.readouterr().err
