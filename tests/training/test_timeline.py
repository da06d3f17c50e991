from __future__ import annotations

import pytest
from grpo_rlvr.training.timeline import Timeline, shares


class Clock:
    """Time that a test moves."""

    now = 0.0

    def __call__(self):
        return self.now

    def after(self, seconds, event):
        self.now += seconds
        event()


def test_a_step_of_two_substeps_of_which_one_generates():
    clock = Clock()
    timeline = Timeline(clock)
    clock.after(100, timeline.step_begins)  # what was before the step counts nowhere
    clock.after(6, timeline.reward_begins)
    clock.after(1, timeline.reward_ends)
    clock.after(2, timeline.substep_ends)
    clock.after(3, timeline.step_ends)
    clock.after(50, timeline.step_begins)  # an evaluation, a checkpoint
    assert timeline.take() == {"rollout": 6, "reward": 1, "update": 5}
    assert timeline.take() == {"rollout": 0, "reward": 0, "update": 0}


def test_rewards_of_an_evaluation_are_in_no_step():
    clock = Clock()
    timeline = Timeline(clock)
    clock.after(1, timeline.reward_begins)
    clock.after(1, timeline.reward_ends)
    assert sum(timeline.take().values()) == 0


def test_shares_are_of_the_whole():
    assert shares({"rollout": 6, "reward": 1, "update": 3}) == {"share_rollout": 0.6, "share_reward": 0.1, "share_update": 0.3}
    assert set(shares({"rollout": 0, "reward": 0, "update": 0}).values()) == {None}
    assert sum(shares({"rollout": 0.123, "reward": 0.456, "update": 0.789}).values()) == pytest.approx(1, abs=1e-3)
