"""The kinds of layers of one model: what each takes, and how many there are."""

from __future__ import annotations

from grpo_rlvr.memory.layer import LayerBytes, Mode, delta_net_bytes, layer_bytes
from grpo_rlvr.memory.shape import ModelShape


def layer_sizes(s: ModelShape, mode: Mode, batch: int, length: int) -> list[tuple[LayerBytes, float]]:
    """(bytes, number of such layers) for `batch` sequences of `length` tokens: dense ones, those with experts, those with linear attention."""
    kinds = [(s.block(False), s.layers - s.expert_layers), (s.block(True), s.expert_layers)]
    sizes = [(layer_bytes(block, mode, batch, length), count) for block, count in kinds if count]
    if s.linear_layers:
        mlp = s.intermediate if not s.experts else s.active_experts * s.expert_intermediate + s.shared_intermediate
        mixer = delta_net_bytes(s.hidden, mlp, s.linear_value_heads, s.linear_key_dim, s.linear_value_dim, batch * length)
        sizes = [(size, count * s.full_layers / s.layers) for size, count in sizes] + [(mixer, s.linear_layers)]
    return sizes
