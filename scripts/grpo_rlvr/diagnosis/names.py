"""Names of metrics: TRL 1.16's, what each means and looks like in a healthy run, and the older and foreign names that mean the same."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One metric (or a family, with `<name>`): when it is logged, what it says, what healthy looks like."""

    name: str
    when: str
    meaning: str
    healthy: str


ALWAYS = "always"
CLIPPED = "loss_type grpo, bnpo, dapo, dr_grpo or luspo"
VLLM = "use_vllm with vllm_importance_sampling_correction"

METRICS = tuple(
    Metric(*row)
    for row in (
        ("loss", ALWAYS, "the loss; its size says nothing", "near 0 with one update a batch; with an auxiliary loss or KL above 0"),
        ("grad_norm", ALWAYS, "norm of the gradient before clipping", "0.05 to 5, without a trend over decades; never 0 for long"),
        ("learning_rate", ALWAYS, "rate of this step", "follows the schedule; the first warm-up step is 0"),
        ("epoch", ALWAYS, "passes through the data", "rises evenly"),
        ("num_tokens", ALWAYS, "prompt and completion tokens so far", "rises evenly"),
        ("step_time", ALWAYS, "seconds a step, generation and rewards included", "moves with the mean length, not with the step"),
        ("reward", ALWAYS, "mean of the weighted sum of the rewards", "rises, with noise, and levels off"),
        ("reward_std", ALWAYS, "deviation over the whole batch (not within the group)", "falls only when reward nears its maximum"),
        (
            "frac_reward_zero_std",
            ALWAYS,
            "share of groups whose rewards are all equal: they teach nothing",
            "below 0.5 until reward nears its maximum",
        ),
        ("rewards/<name>/mean", ALWAYS, "mean of one reward, without its weight", "correctness rises, not only form"),
        ("rewards/<name>/std", ALWAYS, "deviation of one reward over the batch", "above 0 while there is something to learn"),
        ("entropy", ALWAYS, "nats a token, over the tokens that are trained on", "falls slowly, stays well above 0 until the task is solved"),
        ("completions/mean_length", ALWAYS, "tokens of a completion", "grows only together with correctness"),
        ("completions/min_length", ALWAYS, "shortest completion of the batch", "above a few tokens"),
        ("completions/max_length", ALWAYS, "longest completion of the batch", "at most max_completion_length"),
        ("completions/clipped_ratio", ALWAYS, "share that ran into max_completion_length", "below 0.1"),
        ("completions/mean_terminated_length", ALWAYS, "mean length of those that ended by themselves; 0 if none did", "near mean_length"),
        ("completions/min_terminated_length", ALWAYS, "shortest of those", "above 0"),
        ("completions/max_terminated_length", ALWAYS, "longest of those", "well below max_completion_length"),
        ("clip_ratio/low_mean", CLIPPED, "share of tokens clipped below 1 - epsilon", "exactly 0 with one update a batch; else below 0.2"),
        ("clip_ratio/low_min", CLIPPED, "the same, least of all completions", "0"),
        ("clip_ratio/high_mean", CLIPPED, "share of tokens clipped above 1 + epsilon_high", "exactly 0 with one update a batch; else below 0.2"),
        ("clip_ratio/high_max", CLIPPED, "the same, most of all completions", "below 0.5"),
        ("clip_ratio/region_mean", CLIPPED, "clipped on either side", "exactly 0 with one update a batch; else below 0.3 (gspo: more at first)"),
        ("cispo_clip_ratio", "loss_type cispo", "share of tokens whose weight was capped", "below 0.05"),
        ("vespo/phi_seq_mean", "loss_type vespo", "mean weight of a completion", "near 1"),
        ("kl", "beta above 0", "KL to the reference model, nats a token", "0 at the start, below 0.3, without spikes"),
        ("aux_loss", "mixture of experts with router_aux_loss_coef above 0", "balance of the experts' load", "flat"),
        ("policy_loss", "entropy_coef above 0 or use_adaptive_entropy", "the loss without the entropy bonus", "as loss"),
        ("entropy_coef", "entropy_coef above 0 or use_adaptive_entropy", "weight of the entropy bonus", "settles"),
        ("sampling/sampling_logp_difference/mean", VLLM, "mean gap of a token's log-probability between vLLM and trainer", "below 0.02, flat"),
        ("sampling/sampling_logp_difference/max", VLLM, "largest gap", "below 1 most of the time"),
        ("sampling/importance_sampling_ratio/min", VLLM, "least correction weight (after clipping and masking)", "above 0.5 for token modes"),
        ("sampling/importance_sampling_ratio/mean", VLLM, "mean correction weight (after clipping and masking)", "0.95 to 1.05"),
        ("sampling/importance_sampling_ratio/max", VLLM, "largest correction weight", "below the cap"),
        ("tools/call_frequency", "tools or environments", "tool calls a completion", "what the task needs"),
        ("tools/failure_frequency", "tools or environments", "share of the calls that failed", "falls"),
    )
)

# What our own progress log adds.
OWN = tuple(
    Metric(*row)
    for row in (
        ("mem_gb", ALWAYS, "peak memory of the process, GB (10^9 bytes)", "level after the first steps"),
        ("temp_c", "a GPU that tells", "temperature of the GPU", "level"),
        ("gpu_used_gb", "a GPU", "memory in use on the GPU by all processes, GB", "level after the first steps"),
        ("tokens_per_s", ALWAYS, "prompt and completion tokens of all processes a second", "level, or moves with the length"),
        ("share_rollout", ALWAYS, "share of the step that generates", "most of it"),
        ("share_reward", ALWAYS, "share of the step that scores", "small"),
        ("share_update", ALWAYS, "share of the step that trains", "the rest"),
        ("eta_s", ALWAYS, "seconds to the end at the pace so far", "falls"),
        ("dropped_share", ALWAYS, "share of completions that a required reward could not score", "0"),
        ("reward_seconds/<name>", ALWAYS, "seconds a reward took for the batch", "a small part of step_time"),
        ("held_out/accuracy", "data.eval", "share of held-out completions that the rewards accept", "rises with the reward"),
    )
)

# Names of older TRL releases and of our progress lines.
OLD = {
    "lr": "learning_rate",
    "train_loss": "loss",
    "completion_length": "completions/mean_length",
    "completions/length": "completions/mean_length",
    "completions/clip_ratio": "completions/clipped_ratio",
    "mean_terminated_length": "completions/mean_terminated_length",
    "mean_completion_length": "completions/mean_length",
    "clip_ratio": "clip_ratio/region_mean",
    "clip_ratio/low": "clip_ratio/low_mean",
    "clip_ratio/high": "clip_ratio/high_mean",
    "reward/std": "reward_std",
    "reward/mean": "reward",
    "sampling/logp_difference/mean": "sampling/sampling_logp_difference/mean",
    "num_input_tokens_seen": "num_tokens",
}
# Logs of other trainers, by metrics (canonical) that GRPO has not; the names of all of one entry must be there.
FOREIGN = (
    (("rewards/chosen/mean", "rewards/rejected/mean"), "a preference run (DPO, KTO or the like)"),
    (("logps/chosen", "logps/rejected"), "a preference run (DPO, KTO or the like)"),
    (("mean_token_accuracy",), "supervised fine-tuning (SFT)"),
    (("min_reward", "max_reward"), "the training of a reward model"),
    (("objective/kl",), "a PPO run"),
    (("critic/score/mean",), "a run of verl, which has names of its own"),
    (("actor/entropy",), "a run of verl, which has names of its own"),
)
STEP_NAMES = ("train/global_step", "global_step", "trainer/global_step", "step", "Step", "_step")
KNOWN = {m.name for m in (*METRICS, *OWN)}
_OLD_REWARD = re.compile(r"rewards/([^/]+(?:/[^/]+)*?)")
_TIMED = re.compile(r"profiling/Time taken: (?:\w+\.)?(.+)")


def canonical(name: str) -> str:
    """TRL 1.16's name of a metric; `eval_` marks one of an evaluation. A name that is not known comes back as it is.

    Takes the prefixes `train/` and `eval/` of W&B, TensorBoard and Trackio, and the names of older releases.
    """
    held_out = name.startswith(("eval/", "eval_"))
    short = name[5:] if held_out else name.removeprefix("train/")
    short = OLD.get(short, short)
    if _OLD_REWARD.fullmatch(short) and not short.endswith(("/mean", "/std")):
        short += "/mean"  # before TRL 0.17 a reward was logged as rewards/<name>
    return f"eval_{short}" if held_out else short


def is_known(name: str) -> bool:
    """Whether `name` (canonical) is a metric that the table above explains."""
    plain = name.removeprefix("eval_")
    return plain in KNOWN or plain.startswith(("rewards/", "reward_seconds/", "profiling/"))


def foreign(names: Collection[str]) -> str:
    """What trainer wrote these metrics (canonical names), where it was none of GRPO's; empty where that cannot be told."""
    if "reward" in names or "completions/mean_length" in names:
        return ""
    return next((what for signs, what in FOREIGN if all(sign in names for sign in signs)), "")


def reward_name(name: str) -> str | None:
    """`exact` of `rewards/exact/mean`; None for any other metric."""
    return name[len("rewards/") : -len("/mean")] if name.startswith("rewards/") and name.endswith("/mean") else None


def timed_part(name: str) -> str | None:
    """What a profiling time of TRL is about: `vLLM.generate`, a reward's name; None for any other metric."""
    found = _TIMED.fullmatch(name)
    return found[1] if found else None
