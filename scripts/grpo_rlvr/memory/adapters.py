"""Which of a model's linear layers `model.lora.target_modules` means."""

from __future__ import annotations

import re

from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.memory.shape import ModelShape

PARTS = ("self_attn", "linear_attn", "mlp", "mlp.shared_expert", "mlp.shared_experts")


def targets_of(value: str | list[str], shape: ModelShape) -> tuple[str, ...] | None:
    """The names of the layers that get adapters; None for all linear ones.

    PEFT reads a list as names, and text other than `all-linear` as a pattern for whole names such as `model.layers.0.self_attn.q_proj`.

    Raises:
        UserError: no layer of this model is meant; PEFT would refuse it too.
    """
    if value == "all-linear":
        return None
    names = linear_names(shape)
    if isinstance(value, str):
        meant = _by_pattern(value, names)
    else:
        meant = tuple(dict.fromkeys(last for text in value if (last := str(text).rpartition(".")[2]) in names))
    if not meant:
        message = f"{value!r} names no linear layer of {shape.name}" + (
            "; text is a pattern for a layer's whole name" if isinstance(value, str) else ""
        )
        raise UserError("memory", Problem("model.lora.target_modules", message, f"all-linear, or a list of: {', '.join(names)}"))
    return meant


def linear_names(shape: ModelShape) -> tuple[str, ...]:
    """Names of the linear layers that the plan counts adapters for."""
    groups = [shape.attention_matrices if shape.layers > shape.linear_layers else {}, shape.linear_matrices if shape.linear_layers else {}]
    groups += [shape.mlp_matrices(False)] if shape.layers > shape.expert_layers else []
    groups += [shape.mlp_matrices(True)] if shape.expert_layers else []
    return tuple(dict.fromkeys(name for group in groups for name in group))


def _by_pattern(pattern: str, names: tuple[str, ...]) -> tuple[str, ...]:
    try:
        whole = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as exc:
        fix = "all-linear, or a list of names"
        raise UserError("memory", Problem("model.lora.target_modules", f"{pattern!r} is no pattern: {exc}", fix)) from None
    places = [f"model.{tower}layers.{layer}.{part}." for tower in ("", "language_model.") for layer in range(4) for part in PARTS]
    return tuple(name for name in names if any(whole.fullmatch(place + name) for place in places))
