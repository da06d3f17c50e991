"""Variants of GRPO that TRL 1.16 can train, each with the settings of its paper: what `variant:` in a config means.

A variant pins all that makes its loss, so that a change of TRL's defaults changes nothing: TRL's own default is DAPO's aggregation without
the rest of DAPO. What a variant leaves open is the cost of a run: group size, lengths, learning rate, batch. `batch` says what the paper used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TRL = "https://huggingface.co/docs/trl/grpo_trainer"

# What every variant pins unless it says otherwise: the ratio of each token, clipped alike on both sides, no reference model.
COMMON: dict[str, Any] = {
    "importance_sampling_level": "token",
    "scale_rewards": "group",
    "epsilon": 0.2,
    "epsilon_high": None,
    "beta": 0.0,
    "mask_truncated_completions": False,
}
# Another value of these is another method, not a variation of this one.
DEFINING = ("loss_type", "importance_sampling_level", "multi_objective_aggregation")

_ON_POLICY = "each batch is used for one update (steps_per_generation x num_iterations divides gradient_accumulation_steps): the ratio is 1"
# These two look at the gap between vLLM and the trainer as well, which TRL keeps out of the ratio of all others.
_NO_GAP = _ON_POLICY + ", and no vLLM writes the completions"


@dataclass(frozen=True)
class Variant:
    """One method. `settings` are GRPOConfig's keyword arguments; `minibatches` above 1 becomes steps_per_generation.

    Attributes:
        symptom: what a run shows that this answers; "" where it is a starting point rather than a remedy.
        rewards: entries of `rewards:` that belong to the method; `cache_share` in their args becomes `cache` tokens.
        missing: what of the paper TRL cannot do, and what comes nearest.
        batch: group size and batch of the paper, for orientation; not set.
    """

    name: str
    symptom: str
    why: str
    settings: Mapping[str, Any]
    source: str
    does_nothing_when: str
    rewards: tuple[Mapping[str, Any], ...] = ()
    minibatches: int = 1
    missing: str = ""
    batch: str = ""


def _variant(name: str, loss: str, changes: Mapping[str, Any], **text: Any) -> Variant:
    return Variant(name=name, settings={"loss_type": loss, **COMMON, **changes}, **text)


_DAPO = {"epsilon_high": 0.28, "mask_truncated_completions": True}
# DAPO's L_cache is 4,096 of 20,480 tokens.
_OVERLONG = ({"use": "overlong", "weight": 1.0, "args": {"cache_share": 0.2}},)
_DAPO_MISSING = (
    "dynamic sampling (groups that are all right or all wrong are drawn again): TRL has none. Filter the prompts by their measured pass rate"
    " before training (inspect_rewards.py run config.yaml --keep-band 0.2 0.8), watch frac_reward_zero_std, and filter again when it climbs"
)

_ALL = (
    _variant(
        "grpo", "grpo", {"beta": 0.04, "use_bias_correction_kl": False},
        symptom="",
        why="the loss as first published: a mean over the tokens of each completion, then over completions; KL to the starting model (k3)."
        " The paper gives no clip range; 0.2 is PPO's",
        source="https://arxiv.org/abs/2402.03300",
        does_nothing_when="epsilon: " + _ON_POLICY,
        batch="64 completions a prompt, 1,024 tokens, learning rate 1e-6, one update a batch",
    ),
    _variant(
        "dr_grpo", "dr_grpo", {"scale_rewards": "none"},
        symptom="wrong completions grow longer while right ones do not; very easy and very hard prompts dominate",
        why="divides by a constant instead of each completion's length, and not by the group's deviation: neither length nor difficulty is"
        " weighted. The constant is max_completion_length, so changing that rescales the learning rate",
        source="https://arxiv.org/abs/2503.20783",
        does_nothing_when="all completions have the same length and all groups the same deviation (then it only rescales the step)",
        batch="8 completions a prompt, 3,000 tokens",
    ),
    _variant(
        "dapo", "dapo", _DAPO,
        symptom="entropy falls towards 0 and completions become alike; long answers count less a token; cut answers are punished as wrong",
        why="a higher upper clip bound keeps rare tokens alive, every token counts alike, cut completions teach nothing and near-cut ones"
        " are punished softly; no KL",
        source="https://arxiv.org/abs/2503.14476",
        does_nothing_when="epsilon_high: " + _ON_POLICY + ". The token-level loss: all completions have the same length",
        rewards=_OVERLONG,
        missing=_DAPO_MISSING,
        batch="16 completions a prompt, 512 prompts, 16 updates a batch, 20,480 tokens of which 4,096 soft, learning rate 1e-6",
    ),
    _variant(
        "gspo", "grpo",
        {"importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4, "use_bias_correction_kl": False},
        symptom="a mixture-of-experts model diverges; clip ratios jump; several updates a batch make training unstable",
        why="the ratio is that of the whole completion (geometric mean), so one token that another expert scored does not throw the update",
        source="https://arxiv.org/abs/2507.18071",
        does_nothing_when=_ON_POLICY,
        minibatches=4,
        batch="4 updates a batch",
    ),
    _variant(
        "cispo", "cispo", {"epsilon_high": 5.0},
        symptom="clip_ratio/high_mean is large: the rare words that start a new line of reasoning lose their gradient",
        why="caps the weight of a token and keeps its gradient, where clipping drops it. epsilon_high is the cap itself, not 1 + it; 5.0 is"
        " the value of arXiv 2510.13786. Without it TRL caps at epsilon 0.2",
        source="https://arxiv.org/abs/2506.13585",
        does_nothing_when="the cap: " + _ON_POLICY + " (it is then policy gradient, with DAPO's aggregation)",
    ),
    _variant(
        "bnpo", "bnpo", {},
        symptom="",
        why="a mean over the tokens of the local batch: DAPO's aggregation a process and forward pass, so it depends on"
        " per_device_train_batch_size; with 1 it is grpo's. TRL's own name: not the Beta normalisation of arXiv 2506.02864",
        source=TRL,
        does_nothing_when="all completions have the same length",
    ),
    _variant(
        "sapo", "sapo", {"sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05},
        symptom="clip ratios are high and reward is jagged with several updates a batch",
        why="a smooth gate on the ratio instead of hard clipping, steeper for bad completions. It logs no clip ratios",
        source="https://arxiv.org/abs/2511.20347",
        does_nothing_when=_ON_POLICY,
    ),
    _variant(
        "luspo", "luspo", {"importance_sampling_level": "sequence", "epsilon": 2e-3, "epsilon_high": 2.5e-3, "use_bias_correction_kl": False},
        symptom="under gspo completions shrink although the limit is far",
        why="gspo with each completion weighted by its length, which takes gspo's bias against long answers away. The gradient grows with"
        " the length: keep max_grad_norm",
        source="https://arxiv.org/abs/2602.05261",
        does_nothing_when="the clip bounds: " + _ON_POLICY,
    ),
    _variant(
        "vespo", "vespo",
        {
            "vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0,
            "vllm_importance_sampling_mode": "token_truncate",
        },
        symptom="batches are several updates old (asynchronous, or many steps_per_generation) and training is unstable",
        why="weights each completion smoothly by how far the policy has moved from the one that wrote it",
        source="https://arxiv.org/abs/2602.10693",
        does_nothing_when=_NO_GAP,
    ),
    _variant(
        "gdpo", "dapo", {"multi_objective_aggregation": "normalize_then_sum"},
        symptom="of several rewards only the one with the widest spread moves",
        why="normalises each reward in its group before the weighted sum, then the sum over the batch; scale_rewards is not used",
        source="https://arxiv.org/abs/2601.05242",
        does_nothing_when="there is one reward with a weight (but for the normalisation over the batch)",
    ),
    _variant(
        "lite_ppo", "dapo", {"scale_rewards": "batch"},
        symptom="groups that are nearly all right or all wrong get huge advantages",
        why="the deviation of the whole batch instead of the group's, and a token-level loss",
        source="https://arxiv.org/abs/2508.08221",
        does_nothing_when="all groups have the same deviation",
        batch="8 completions a prompt",
    ),
    _variant(
        "scalerl", "cispo", {"epsilon_high": 5.0, "scale_rewards": "batch", "cast_lm_head_to_fp32": True},
        symptom="vLLM and trainer disagree on probabilities (sampling/sampling_logp_difference) and reward levels off early",
        why="cispo, deviation of the batch, and the output layer in float32, which is where the two differ most",
        source="https://arxiv.org/abs/2510.13786",
        does_nothing_when="cast_lm_head_to_fp32: the weights are float32 already",
        missing="its asynchronous pipeline, the curriculum that drops prompts above 90% and forced length interruptions: TRL has none of them",
        batch="16 completions a prompt",
    ),
    _variant(
        "intellect_2", "grpo", {"delta": 4.0, "beta": 0.001, "use_bias_correction_kl": False},
        symptom="single updates blow up the gradient: tokens of bad completions whose ratio is huge are not clipped by GRPO",
        why="a second bound on the ratio, for negative advantages",
        source="https://arxiv.org/abs/2505.07291",
        does_nothing_when="delta: " + _ON_POLICY,
        batch="16 completions a prompt, learning rate 3e-7",
    ),
    _variant(
        "high_entropy", "dapo", {**_DAPO, "top_entropy_quantile": 0.2},
        symptom="reward rises slowly while entropy is healthy: most tokens are forced and carry noise only",
        why="trains on the fifth of the tokens with the highest entropy, where reasoning branches; on top of DAPO",
        source="https://arxiv.org/abs/2506.01939",
        does_nothing_when="never; with very short completions few tokens are left",
        rewards=_OVERLONG,
        missing=_DAPO_MISSING,
    ),
    _variant(
        "skywork_or1", "dapo", {"use_adaptive_entropy": True, "entropy_coef_delta": 0.005, "entropy_target": 0.2},
        symptom="entropy collapses early although clip-higher is on or has no effect",
        why="an entropy bonus that grows while entropy is below a target. Set entropy_target near the entropy of the first steps: 0.2 nats acts"
        " on near-total collapse only",
        source="https://arxiv.org/abs/2505.22312",
        does_nothing_when="entropy stays above entropy_target",
    ),
    _variant(
        "deepseek_v3_2", "grpo", {"beta": 0.001, "use_bias_correction_kl": True, "off_policy_mask_threshold": 0.5},
        symptom="bad completions that the policy has moved away from dominate the gradient; KL estimates are off under several updates a batch",
        why="drops bad completions whose mean log-ratio exceeds a threshold, and weights the KL by the ratio. The paper gives neither value:"
        " 0.5 and 0.001 are those of TRL's documentation",
        source="https://arxiv.org/abs/2512.02556",
        does_nothing_when="the mask: " + _NO_GAP,
        missing="keeping the experts' routing and the sampling mask of the rollout: TRL has neither",
    ),
)  # fmt: skip

VARIANTS: dict[str, Variant] = {v.name: v for v in _ALL}


def settings_of(name: str, gradient_accumulation_steps: int = 1) -> dict[str, Any]:
    """The variant's keyword arguments of GRPOConfig; KeyError for an unknown name.

    Args:
        gradient_accumulation_steps: as in the config; a variant of several updates a batch sets steps_per_generation to a multiple.
    """
    variant = VARIANTS[name]
    own = dict(variant.settings)
    if variant.minibatches > 1:
        own["steps_per_generation"] = variant.minibatches * gradient_accumulation_steps
    return own
