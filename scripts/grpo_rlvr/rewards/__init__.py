"""Verifiable rewards: `reward(completions, **columns)` gives one value in [0, 1], or None, for each completion."""

from __future__ import annotations

from grpo_rlvr.rewards.answers import make_correctness_reward
from grpo_rlvr.rewards.base import Reward
from grpo_rlvr.rewards.choices import make_choice_reward
from grpo_rlvr.rewards.code import make_code_reward
from grpo_rlvr.rewards.dataset_check import check_dataset
from grpo_rlvr.rewards.formats import make_format_reward, make_partial_format_reward
from grpo_rlvr.rewards.json_equal import make_json_reward
from grpo_rlvr.rewards.judge import make_rubric_judge_reward
from grpo_rlvr.rewards.judge_calibration import calibrate_judge, load_calibration, save_calibration
from grpo_rlvr.rewards.judge_client import OpenAIJudgeClient
from grpo_rlvr.rewards.mathematics.reward import make_math_reward
from grpo_rlvr.rewards.registry import REGISTRY, BuiltReward, build_rewards
from grpo_rlvr.rewards.schemas import make_schema_reward
from grpo_rlvr.rewards.scoring import Scores, score_all, verdicts
from grpo_rlvr.rewards.shaping import make_overlong_reward, with_length_penalty
from grpo_rlvr.rewards.tool_calls import make_tool_call_reward

format_reward = make_format_reward()
partial_format_reward = make_partial_format_reward()
correctness_reward = make_correctness_reward()
math_reward = make_math_reward()
choice_reward = make_choice_reward()
schema_reward = make_schema_reward()
json_reward = make_json_reward()
tool_call_reward = make_tool_call_reward()

__all__ = [
    "REGISTRY",
    "BuiltReward",
    "OpenAIJudgeClient",
    "Reward",
    "Scores",
    "build_rewards",
    "check_dataset",
    "calibrate_judge",
    "choice_reward",
    "correctness_reward",
    "format_reward",
    "json_reward",
    "load_calibration",
    "make_choice_reward",
    "make_code_reward",
    "make_correctness_reward",
    "make_format_reward",
    "make_json_reward",
    "make_math_reward",
    "make_overlong_reward",
    "make_partial_format_reward",
    "make_rubric_judge_reward",
    "make_schema_reward",
    "make_tool_call_reward",
    "math_reward",
    "partial_format_reward",
    "save_calibration",
    "schema_reward",
    "score_all",
    "tool_call_reward",
    "verdicts",
    "with_length_penalty",
]
