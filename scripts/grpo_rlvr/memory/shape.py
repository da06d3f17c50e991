"""The shape of a language model: sizes, parameters counted to the unit, adapters, cache bytes a token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grpo_rlvr.memory.families import FAMILIES, Family
from grpo_rlvr.memory.layer import Block


@dataclass(frozen=True)
class ModelShape:
    """Sizes in elements. `full_layers + sliding_layers + linear_layers == layers`; the layers after `dense_layers` have experts."""

    name: str
    model_type: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    experts: int = 0
    active_experts: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    dense_layers: int = 0
    sliding_layers: int = 0
    window: int = 0
    linear_layers: int = 0
    linear_key_heads: int = 0
    linear_value_heads: int = 0
    linear_key_dim: int = 0
    linear_value_dim: int = 0
    conv_kernel: int = 0
    kv_rank: int = 0
    q_rank: int = 0
    rope_dim: int = 0
    nope_dim: int = 0
    value_dim: int = 0
    qkv_bias: bool = False
    max_context: int = 0
    quantized: str = ""
    vision: bool = False

    @property
    def family(self) -> Family:
        return FAMILIES[self.model_type]

    @property
    def full_layers(self) -> int:
        return self.layers - self.sliding_layers - self.linear_layers

    @property
    def q_size(self) -> int:
        return self.heads * (self.nope_dim + self.rope_dim if self.family.mla else self.head_dim)

    @property
    def kv_size(self) -> int:
        return self.q_size if self.family.mla else self.kv_heads * self.head_dim

    @property
    def v_size(self) -> int:
        return self.heads * self.value_dim if self.family.mla else self.q_size

    # ---- parameters

    @property
    def attention_matrices(self) -> dict[str, tuple[int, int]]:
        """(rows, columns) of a softmax-attention layer's linear layers, by Hugging Face's names."""
        h = self.hidden
        if self.family.mla:
            sizes = {"kv_a_proj_with_mqa": (self.kv_rank + self.rope_dim, h)}
            sizes["kv_b_proj"] = (self.heads * (self.nope_dim + self.value_dim), self.kv_rank)
            if self.q_rank:
                sizes |= {"q_a_proj": (self.q_rank, h), "q_b_proj": (self.q_size, self.q_rank)}
            else:
                sizes["q_proj"] = (self.q_size, h)
            return sizes | {"o_proj": (h, self.v_size)}
        gate = 2 if self.family.gated_attention else 1
        if self.family.fused_qkv:
            return {"qkv_proj": (self.q_size + 2 * self.kv_size, h), "o_proj": (h, self.q_size)}
        return {"q_proj": (self.q_size * gate, h), "k_proj": (self.kv_size, h), "v_proj": (self.kv_size, h), "o_proj": (h, self.q_size)}

    @property
    def linear_matrices(self) -> dict[str, tuple[int, int]]:
        """(rows, columns) of a linear-attention layer's linear layers (gated delta net)."""
        h, key, value = self.hidden, self.linear_key_heads * self.linear_key_dim, self.linear_value_heads * self.linear_value_dim
        return {
            "in_proj_qkv": (2 * key + value, h), "in_proj_z": (value, h), "in_proj_b": (self.linear_value_heads, h),
            "in_proj_a": (self.linear_value_heads, h), "out_proj": (h, value),
        }  # fmt: skip

    def mlp_matrices(self, layer_has_experts: bool) -> dict[str, tuple[int, int]]:
        """(rows, columns) of the dense MLP, or of the shared expert beside the routed ones."""
        i = self.shared_intermediate if layer_has_experts else self.intermediate
        if self.family.fused_gate_up:
            return {"gate_up_proj": (2 * i, self.hidden), "down_proj": (self.hidden, i)} if i else {}
        return {"gate_proj": (i, self.hidden), "up_proj": (i, self.hidden), "down_proj": (self.hidden, i)} if i else {}

    @property
    def expert_layers(self) -> int:
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def expert_parameters(self) -> int:
        """Of the routed experts of one layer."""
        h, i = self.hidden, self.expert_intermediate
        return self.experts * (3 * h * i + (2 * i + h if self.family.expert_bias else 0))

    @property
    def linear_parameters(self) -> int:
        """In linear layers (what adapters and 4-bit quantisation take), without the head and without experts and routers."""
        attention = (self.layers - self.linear_layers) * _elements(self.attention_matrices)
        mixers = self.linear_layers * _elements(self.linear_matrices) if self.linear_layers else 0
        mlp = (self.layers - self.expert_layers) * _elements(self.mlp_matrices(False)) + self.expert_layers * _elements(self.mlp_matrices(True))
        return attention + mixers + mlp

    @property
    def head_parameters(self) -> int:
        return self.vocab * self.hidden

    @property
    def embedding_parameters(self) -> int:
        """Input embedding and head; one matrix where they are tied."""
        return self.head_parameters * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        f, h = self.family, self.hidden
        norms = self.layers * h * (4 if f.sandwich_norms else 2) + h
        attention = 0
        if f.mla:
            attention += self.kv_rank + self.q_rank
        else:
            attention += (self.q_size + 2 * self.kv_size if self.qkv_bias else 0) + (h if f.o_bias else 0)
            attention += (2 * self.head_dim if f.qk_norm else 0) + (self.heads if f.sinks else 0)
        mixers = 0
        if self.linear_layers:
            key, value = self.linear_key_heads * self.linear_key_dim, self.linear_value_heads * self.linear_value_dim
            mixers = (2 * key + value) * self.conv_kernel + 2 * self.linear_value_heads + self.linear_value_dim
        routers = self.experts * (h + (1 if f.expert_bias else 0)) + (h if f.shared_gate and self.shared_intermediate else 0)
        small = norms + (self.layers - self.linear_layers) * attention + self.linear_layers * mixers + self.expert_layers * routers
        return self.linear_parameters + self.embedding_parameters + self.expert_layers * self.expert_parameters + small

    @property
    def active_parameters(self) -> int:
        """Used for one token: all but the experts that are not chosen."""
        share = self.active_experts / self.experts if self.experts else 1
        return self.parameters - int(self.expert_layers * self.expert_parameters * (1 - share))

    @property
    def layer_parameters(self) -> int:
        """Of the largest layer."""
        mlp = _elements(self.mlp_matrices(bool(self.experts))) + self.expert_parameters if self.experts else _elements(self.mlp_matrices(False))
        return _elements(self.attention_matrices) + mlp

    def adapts_experts(self, targets: tuple[str, ...] | None) -> bool:
        """Whether adapters on `targets` (None: all linear layers) go into the routed experts, as PEFT 0.21 on transformers 5 does it."""
        return bool(self.experts) and self.family.adapted_experts and targets is None

    def lora_parameters(self, rank: int, targets: tuple[str, ...] | None) -> int:
        """Elements of the adapters on `targets` (None: all linear layers but the head)."""
        groups = [
            (self.attention_matrices, self.layers - self.linear_layers),
            (self.linear_matrices if self.linear_layers else {}, self.linear_layers),
        ]
        extra = 0
        if self.adapts_experts(targets):
            h, i, per = self.hidden, self.expert_intermediate, self.experts * rank
            # Gate and up are one parameter and get one adapter of twice the rank for each expert.
            extra = self.expert_layers * (2 * per * (h + 2 * i) + per * (i + h) + rank * (h + self.experts))
        else:
            groups += [(self.mlp_matrices(False), self.layers - self.expert_layers), (self.mlp_matrices(True), self.expert_layers)]
            if self.family.shared_gate and targets is None:
                extra = self.expert_layers * rank * (self.hidden + 1)
        return extra + sum(
            count * rank * (rows + columns)
            for matrices, count in groups
            for name, (rows, columns) in matrices.items()
            if targets is None or name in targets
        )

    # ---- activations and cache

    def block(self, experts: bool) -> Block:
        """The sizes of a softmax-attention layer for the activations, with the dense or the expert part."""
        f = self.family
        return Block(
            self.hidden, self.q_size, self.kv_size, self.heads, self.shared_intermediate if experts else self.intermediate, f.qk_norm,
            f.gated_attention, f.sandwich_norms, self.experts if experts else 0, self.active_experts if experts else 0,
            self.expert_intermediate if experts else 0, self.v_size, f.fused_qkv, f.fused_gate_up,
        )  # fmt: skip

    def kv_bytes(self, tokens: int, width: float = 2, parallel: int = 1) -> float:
        """Cache of one sequence of `tokens` on one of `parallel` GPUs; a sliding layer keeps its window, a linear one a constant state."""
        if self.family.mla:
            return self.layers * (self.kv_rank + self.rope_dim) * tokens * width
        per_layer = 2 * max(1, self.kv_heads / parallel) * self.head_dim * width
        state = 0.0
        if self.linear_layers:
            key, value = self.linear_key_heads * self.linear_key_dim, self.linear_value_heads * self.linear_value_dim
            recurrent = self.linear_value_heads * self.linear_key_dim * self.linear_value_dim * 4
            state = self.linear_layers * (recurrent + (2 * key + value) * self.conv_kernel * 2) / parallel
        window = min(tokens, self.window) if self.sliding_layers else 0
        return per_layer * (self.full_layers * tokens + self.sliding_layers * window) + state


def _elements(matrices: Mapping[str, tuple[int, int]]) -> int:
    return sum(rows * columns for rows, columns in matrices.values())
