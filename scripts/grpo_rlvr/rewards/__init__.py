"""Verifiable rewards: `reward(completions, **columns)` gives one value in [0, 1], or None, for each completion."""

from __future__ import annotations

from grpo_rlvr.rewards.answers import make_correctness_reward
from grpo_rlvr.rewards.base import Reward
from grpo_rlvr.rewards.formats import make_format_reward, make_partial_format_reward
from grpo_rlvr.rewards.math_answers import make_math_reward
from grpo_rlvr.rewards.registry import REGISTRY, BuiltReward, build_rewards
from grpo_rlvr.rewards.schemas import make_schema_reward
from grpo_rlvr.rewards.scoring import Scores, score_all, verdicts

format_reward = make_format_reward()
partial_format_reward = make_partial_format_reward()
correctness_reward = make_correctness_reward()
math_reward = make_math_reward()
schema_reward = make_schema_reward()

__all__ = [
    "REGISTRY",
    "BuiltReward",
    "Reward",
    "Scores",
    "build_rewards",
    "correctness_reward",
    "format_reward",
    "make_correctness_reward",
    "make_format_reward",
    "make_math_reward",
    "make_partial_format_reward",
    "make_schema_reward",
    "math_reward",
    "partial_format_reward",
    "schema_reward",
    "score_all",
    "verdicts",
]
