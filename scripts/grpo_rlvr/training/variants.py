"""Variants of GRPO by their symptom, with the settings that TRL 1.16 takes for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Variant:
    """One method: what a run shows that it answers, its GRPOConfig settings, and when they do nothing."""

    name: str
    symptom: str
    why: str
    settings: Mapping[str, Any]
    source: str
    does_nothing_when: str


_ON_POLICY = "each batch is used for one update: the ratio is 1"
VARIANTS: dict[str, Variant] = {
    v.name: v
    for v in (
        Variant(
            "dapo", "entropy falls towards 0 and completions become alike", "a higher upper clip bound keeps rare tokens alive",
            {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28, "beta": 0.0, "mask_truncated_completions": True},
            "https://arxiv.org/abs/2503.14476", "epsilon_high: " + _ON_POLICY,
        ),
        Variant(
            "dr_grpo", "wrong completions grow longer",
            "divides by a constant, not by each completion's length or the group's deviation",
            {"loss_type": "dr_grpo", "scale_rewards": "none", "beta": 0.0}, "https://arxiv.org/abs/2503.20783",
            "all completions have the same length",
        ),
        Variant(
            "gspo", "a mixture-of-experts model diverges", "the ratio is that of the whole completion",
            {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4, "beta": 0.0},
            "https://arxiv.org/abs/2507.18071", _ON_POLICY,
        ),
    )
}  # fmt: skip


def settings_of(name: str, gradient_accumulation_steps: int = 1) -> dict[str, Any]:
    """The variant's keyword arguments of GRPOConfig; KeyError for an unknown name."""
    return dict(VARIANTS[name].settings)
