"""The loss: settings that contradict one another or have no effect."""

from __future__ import annotations

from collections.abc import Iterator

from grpo_rlvr.training.findings import Finding, error, note, warning
from grpo_rlvr.training.setup import Setup


def _loss(s: Setup) -> Iterator[Finding]:
    loss, scale = s["loss_type"], s["scale_rewards"]
    if loss == "cispo" and s["epsilon_high"] is None:
        yield warning(
            "cispo-cap",
            f"loss_type cispo without epsilon_high caps every weight at epsilon {s['epsilon']:g}: the gradient shrinks to that share",
            "set epsilon_high: 5.0",
        )
    if loss == "dr_grpo" and scale != "none":
        yield warning("dr-grpo-scaling", f"loss_type dr_grpo with scale_rewards {scale} still divides by the deviation", "set scale_rewards: none")
    if loss == "dr_grpo" and s["max_completion_length"] is None:
        yield error("dr-grpo-length", "loss_type dr_grpo divides by max_completion_length, which is null", "set max_completion_length")
    if s["mask_truncated_completions"]:
        limit = s["max_completion_length"]
        yield note(
            "masked-truncation",
            f"completions cut at max_completion_length {limit} teach nothing; if all are cut the gradient is 0 without an error",
            "watch completions/clipped_ratio",
        )
    weights = [r.weight for r in s.config.rewards]
    if not any(weights):
        yield error("no-weight", f"all {len(weights)} rewards have weight 0: nothing is learned", "give one reward a weight")


def _sequence_level(s: Setup) -> Iterator[Finding]:
    loss, level = s["loss_type"], s["importance_sampling_level"]
    if loss == "luspo" and level != "sequence":
        yield warning(
            "luspo-level", f"loss_type luspo with importance_sampling_level {level}: the paper's ratio is the sequence's", "set variant: luspo"
        )
    if loss == "vespo" and level != "token":
        yield warning("vespo-level", f"loss_type vespo with importance_sampling_level {level}: it makes the sequence's weight itself", "delete it")
    if level != "sequence":
        return
    if loss in ("bnpo", "dr_grpo", "dapo", "cispo"):
        yield warning(
            "sequence-loss",
            f"importance_sampling_level sequence with loss_type {loss} sums over tokens, so a completion counts by its length: that is not GSPO",
            "set variant: gspo",
        )
    bounds = [f"{n} {s[n]:g}" for n in ("epsilon", "epsilon_high") if s[n] is not None and s[n] > 0.02]
    if bounds and loss in ("grpo", "luspo") and not s.on_policy:
        yield warning(
            "sequence-clip",
            f"{' and '.join(bounds)}: the ratio of a completion is a mean over its tokens and stays within thousandths of 1: this never clips",
            "set epsilon: 3.0e-4 and epsilon_high: 4.0e-4, as variant: gspo does",
        )
    if s["beta"] > 0 and s["use_bias_correction_kl"]:
        yield warning(
            "sequence-kl",
            f"beta {s['beta']:g} with importance_sampling_level sequence: the correction of the KL is made for tokens and is biased here",
            "set use_bias_correction_kl: false",
        )


def _terms(s: Setup) -> Iterator[Finding]:
    """KL, entropy, several rewards."""
    if s["beta"] > 0 and "use_bias_correction_kl" not in s.config.grpo:
        yield note(
            "kl-estimator",
            f"beta {s['beta']:g}: TRL weights the KL by the ratio (use_bias_correction_kl true since 1.10), which changes its gradient even where the"
            " ratio is 1; older recipes used the plain k3 estimate",
            "write use_bias_correction_kl: true, or false for the older one",
        )
    target = s["entropy_target"]
    if s["use_adaptive_entropy"] and target <= 0.2:
        yield warning(
            "entropy-target",
            f"use_adaptive_entropy with entropy_target {target:g} nats acts on near-total collapse only",
            "set entropy_target a little under the `entropy` of the first logged steps",
        )
    weights = [r.weight for r in s.config.rewards]
    if s["multi_objective_aggregation"] == "normalize_then_sum":
        if sum(w != 0 for w in weights) == 1:
            yield note("one-objective", "multi_objective_aggregation normalize_then_sum is for several rewards; one of yours has a weight", "")
        if s.config.grpo.get("scale_rewards", "group") != "group":
            message = f"scale_rewards {s['scale_rewards']} is not used with multi_objective_aggregation normalize_then_sum"
            yield note("scale-unused", message, "delete scale_rewards")
    if s["vllm_importance_sampling_correction"] and s["use_vllm"]:
        low, high, mode = (s[f"vllm_importance_sampling_{n}"] for n in ("clip_min", "clip_max", "mode"))
        if low is not None and high is not None and low >= high:
            message = f"vllm_importance_sampling_clip_min {low:g} is not below vllm_importance_sampling_clip_max {high:g}"
            yield error("importance-bounds", message, "delete vllm_importance_sampling_clip_min")
        if low is None and high is None and mode.endswith("truncate"):
            message = f"vllm_importance_sampling_mode {mode} has no bound: clip_min and clip_max are both null"
            yield error("importance-bounds", message, "set vllm_importance_sampling_clip_max: 3.0")


def _off_policy(s: Setup) -> Iterator[Finding]:
    """What does nothing while every batch is used for one update: the ratio is 1 then, with vLLM too."""
    if not s.on_policy:
        return
    written, loss = s.config.grpo, s["loss_type"]
    idle = [f"delta {written['delta']:g}"] if written.get("delta") is not None else []
    # This mask compares the policy with vLLM's own probabilities, where there are any.
    if written.get("off_policy_mask_threshold") is not None and not s["use_vllm"]:
        idle.append(f"off_policy_mask_threshold {written['off_policy_mask_threshold']:g}")
    # cispo caps the weight itself, so there epsilon_high matters on-policy too.
    if written.get("epsilon_high") is not None and loss != "cispo":
        idle.insert(0, f"epsilon_high {written['epsilon_high']:g}")
    if s["importance_sampling_level"] == "sequence":
        idle.append("importance_sampling_level sequence")
    if loss == "sapo" or loss == "vespo" and not s.weighs_gap:
        idle.append(f"the gate of loss_type {loss}")
    if idle:
        steps, accumulation = s.cycle, s["gradient_accumulation_steps"]
        yield note(
            "clip-no-op",
            f"{', '.join(idle)} {'do' if len(idle) > 1 else 'does'} nothing here: a batch is used up within one update"
            f" (steps_per_generation x num_iterations {steps}, gradient_accumulation_steps {accumulation}), so the ratio is always 1",
            f"it acts where steps_per_generation x num_iterations exceeds {accumulation}",
        )


RULES = (_loss, _sequence_level, _terms, _off_policy)
