"""The architectures whose layers are known, by `model_type`, as what they add to the plain decoder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """What a `model_type` adds to the plain decoder (RMS norms, grouped-query attention without biases, gated MLP)."""

    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: bool = False
    sandwich_norms: bool = False
    gated_attention: bool = False
    linear_attention: bool = False
    moe: str = ""  # the key that holds the number of experts
    expert_bias: bool = False
    shared_gate: bool = False
    sinks: bool = False
    mla: bool = False
    adapted_experts: bool = False  # PEFT's all-linear takes routed experts and router, and then no MLP
    fused_qkv: bool = False
    fused_gate_up: bool = False
    tied: bool = False  # transformers' default where config.json does not say


FAMILIES: dict[str, Family] = {
    "llama": Family(),
    "mistral": Family(),
    "smollm3": Family(tied=True),
    "phi3": Family(fused_qkv=True, fused_gate_up=True),
    "granite": Family(),
    "qwen2": Family(qkv_bias=True),
    "qwen3": Family(qk_norm=True),
    "gemma2": Family(sandwich_norms=True, tied=True),
    "gemma3_text": Family(sandwich_norms=True, qk_norm=True, tied=True),
    "glm4": Family(sandwich_norms=True, qkv_bias=True, fused_gate_up=True),
    "mixtral": Family(adapted_experts=True, moe="num_local_experts"),
    "qwen2_moe": Family(qkv_bias=True, moe="num_experts", shared_gate=True),
    "qwen3_moe": Family(adapted_experts=True, qk_norm=True, moe="num_experts"),
    "qwen3_5_text": Family(qk_norm=True, gated_attention=True, linear_attention=True),
    "qwen3_5_moe_text": Family(qk_norm=True, gated_attention=True, linear_attention=True, moe="num_experts", shared_gate=True),
    "glm4_moe": Family(adapted_experts=True, moe="n_routed_experts"),
    "gpt_oss": Family(qkv_bias=True, o_bias=True, sinks=True, moe="num_local_experts", expert_bias=True),
    "deepseek_v3": Family(adapted_experts=True, moe="n_routed_experts", mla=True),
    "deepseek_v2": Family(adapted_experts=True, moe="n_routed_experts", mla=True),
}
