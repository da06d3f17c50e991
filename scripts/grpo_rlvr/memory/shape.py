"""The shape of a language model, from its `config.json`: sizes, parameters counted to the unit, cache bytes a token.

Only architectures whose layers are known here are read; for any other the error names what would have to be known. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.memory.layer import Block
from grpo_rlvr.schema_check import nearest


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
# Families whose config.json may say otherwise by `attention_bias`.
_BIAS_BY_CONFIG = {"llama", "granite", "qwen3", "qwen3_moe", "glm4", "glm4_moe"}
# Multimodal files keep the language model's fields in `text_config`; the towers are not planned for.
_NESTED = ("text_config", "language_config", "llm_config")


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
        """The layer's sizes for the activations. Linear-attention layers count as softmax layers of the same widths."""
        f = self.family
        return Block(
            self.hidden, self.q_size, self.kv_size, self.heads, self.shared_intermediate if experts else self.intermediate, f.qk_norm,
            f.gated_attention, f.sandwich_norms, self.experts if experts else 0, self.active_experts if experts else 0,
            self.expert_intermediate if experts else 0, self.v_size,
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


def read_shape(config: Mapping[str, Any], name: str) -> ModelShape:
    """The shape that a `config.json` describes.

    Raises:
        UserError: kind `model`: the architecture is not known here, or fields are missing (all of them named) or not numbers.
    """
    outer = config
    for key in _NESTED:
        if isinstance(config.get(key), Mapping):
            config = {**config[key]}
    kind = str(config.get("model_type") or "")
    kind = {"qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text", "gemma3": "gemma3_text", "qwen2_5_vl_text": "qwen2"}.get(kind, kind)
    if kind not in FAMILIES:
        raise UserError("model", _unknown(kind, config, name))
    family = FAMILIES[kind]
    wanted = _wanted(family)
    problems = [
        Problem(f"{name}: {key}", "is missing", f"add `{key}` to config.json; {why}") for key, why in wanted.items() if config.get(key) is None
    ]
    wrong = [key for key in wanted if config.get(key) is not None and not _count(config[key])]
    problems += [Problem(f"{name}: {key}", f"must be a whole number above 0, got {config[key]!r}", "correct config.json") for key in wrong]
    if problems:
        raise UserError("model", problems)
    return _build(config, outer, kind, family, name)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9


_DENSE = {
    "hidden_size": "width of the residual stream", "num_hidden_layers": "layers", "num_attention_heads": "query heads",
    "vocab_size": "rows of the embedding",
}  # fmt: skip


def _wanted(family: Family) -> dict[str, str]:
    wanted = dict(_DENSE)
    if family.moe:
        wanted |= {family.moe: "routed experts in a layer", "num_experts_per_tok": "experts that a token uses"}
    if not family.moe or family.expert_bias or family.mla:
        wanted["intermediate_size"] = "width of the MLP"
    if family.mla:
        wanted |= dict.fromkeys(("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "moe_intermediate_size"), "latent attention")
    if family.linear_attention:
        keys = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim")
        wanted |= dict.fromkeys(keys, "linear attention")
    return wanted


def _unknown(kind: str, config: Mapping[str, Any], name: str) -> list[Problem]:
    known = ", ".join(sorted(FAMILIES))
    if not kind:
        return [Problem(f"{name}: model_type", "is missing", f"a config.json names its architecture; known here: {known}")]
    absent = [key for key in (*_DENSE, "num_key_value_heads", "intermediate_size") if config.get(key) is None]
    lacks = f"; its config.json also lacks {', '.join(absent)}" if absent else ""
    message = f"the architecture '{kind}' is not known here, so its parameters and activations cannot be counted{lacks}"
    fix = nearest(kind, FAMILIES, f"known: {known}") + "; if it has the layers of a known one, say so: --as llama (or qwen2, qwen3, ...)"
    return [Problem(f"{name}: model_type", message, fix)]


def _build(config: Mapping[str, Any], outer: Mapping[str, Any], kind: str, family: Family, name: str) -> ModelShape:
    def get(key: str, otherwise: int = 0) -> int:
        value = config.get(key)
        return value if _count(value) else otherwise

    hidden, layers, heads = get("hidden_size"), get("num_hidden_layers"), get("num_attention_heads")
    experts = get(family.moe) if family.moe else 0
    expert_width = get("moe_intermediate_size") or get("intermediate_size")
    shared = get("shared_expert_intermediate_size") or get("n_shared_experts") * expert_width if experts else 0
    sliding, window, linear = _layer_kinds(config, kind, layers)
    bias = bool(config["attention_bias"]) if kind in _BIAS_BY_CONFIG and isinstance(config.get("attention_bias"), bool) else family.qkv_bias
    tied = config.get("tie_word_embeddings", outer.get("tie_word_embeddings", family.tied))
    quantization = outer.get("quantization_config") or config.get("quantization_config") or {}
    return ModelShape(
        name=name, model_type=kind, hidden=hidden, layers=layers, heads=heads, kv_heads=get("num_key_value_heads", heads),
        head_dim=get("head_dim") or hidden // heads, intermediate=get("intermediate_size"), vocab=get("vocab_size"), tied=bool(tied),
        experts=experts, active_experts=get("num_experts_per_tok") if experts else 0, expert_intermediate=expert_width if experts else 0,
        shared_intermediate=shared, dense_layers=get("first_k_dense_replace") if experts else 0, sliding_layers=sliding, window=window,
        linear_layers=linear, linear_key_heads=get("linear_num_key_heads"), linear_value_heads=get("linear_num_value_heads"),
        linear_key_dim=get("linear_key_head_dim"), linear_value_dim=get("linear_value_head_dim"), conv_kernel=get("linear_conv_kernel_dim"),
        kv_rank=get("kv_lora_rank"), q_rank=get("q_lora_rank"), rope_dim=get("qk_rope_head_dim"), nope_dim=get("qk_nope_head_dim"),
        value_dim=get("v_head_dim"), qkv_bias=bias, max_context=get("max_position_embeddings"),
        quantized=str(quantization.get("quant_method") or "") if isinstance(quantization, Mapping) else "", vision=config is not outer and "vision_config" in outer,
    )  # fmt: skip


def _layer_kinds(config: Mapping[str, Any], kind: str, layers: int) -> tuple[int, int, int]:
    """(sliding layers, their window, linear-attention layers)."""
    types = config.get("layer_types")
    window = config.get("sliding_window") if _count(config.get("sliding_window")) else 0
    if config.get("use_sliding_window") is False:
        window = 0
    if isinstance(types, list) and len(types) == layers:
        sliding = sum(t == "sliding_attention" for t in types)
        return (sliding if window else 0), window, sum(t == "linear_attention" for t in types)
    if _count(config.get("full_attention_interval")):
        return 0, 0, layers - layers // config["full_attention_interval"]
    if kind == "gpt_oss":
        return layers // 2 if window else 0, window, 0
    if kind == "gemma3_text":
        pattern = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or 6
        return (layers - layers // pattern if window else 0), window, 0
    if kind == "gemma2":
        return layers // 2 if window else 0, window, 0
    return (layers if window else 0), window, 0
