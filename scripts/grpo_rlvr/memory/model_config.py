"""From a `config.json` to a `ModelShape`.

Only architectures whose layers are known are read; for any other the error names what would have to be known. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.memory.families import FAMILIES, Family
from grpo_rlvr.memory.shape import ModelShape
from grpo_rlvr.schema_check import nearest

# Families whose config.json may say otherwise by `attention_bias`.
_BIAS_BY_CONFIG = {"llama", "granite", "qwen3", "qwen3_moe", "glm4", "glm4_moe"}
# Multimodal files keep the language model's fields in `text_config`; the towers are not planned for.
_NESTED = ("text_config", "language_config", "llm_config")


def read_shape(config: Mapping[str, Any], name: str) -> ModelShape:
    """The shape that a `config.json` describes.

    Raises:
        UserError: kind `model`: the architecture is not known here, or fields are missing (all of them named) or not numbers.
    """
    outer = config
    for key in _NESTED:
        if isinstance(config.get(key), Mapping):
            config = {**config[key]}
    config = _one_name(config)
    kind = str(config.get("model_type") or "")[:100]
    kind = {"qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text", "gemma3": "gemma3_text", "qwen2_5_vl_text": "qwen2"}.get(kind, kind)
    if kind not in FAMILIES:
        raise UserError("model", _unknown(kind, config, name))
    family = FAMILIES[kind]
    wanted = _wanted(family)
    problems = [
        Problem(f"{name}: {key}", "is missing", f"add `{key}` to config.json; {why}") for key, why in wanted.items() if config.get(key) is None
    ]
    wrong = [key for key in wanted if config.get(key) is not None and not _count(config[key])]
    problems += [Problem(f"{name}: {key}", f"must be a whole number above 0, got {_short(config[key])}", "correct config.json") for key in wrong]
    problems += [Problem(f"{name}: {key}", message, "correct config.json") for key, message in _wrong_optional(config, outer, wanted)]
    problems += [] if problems else [Problem(f"{name}: {key}", message, "correct config.json") for key, message in _unrelated(config, family)]
    if problems:
        raise UserError("model", problems)
    return _build(config, outer, kind, family, name)


# What transformers 5 writes where the published files have another name.
_EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")


def _one_name(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The number of experts under every name it goes by."""
    experts = next((config[k] for k in _EXPERT_KEYS if config.get(k) is not None), None)
    return config if experts is None else {**dict.fromkeys(_EXPERT_KEYS, experts), **config}


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# What may be left out or null, but not be of another kind: a wrong value would be planned as if it were not there.
_COUNTS = (
    "num_key_value_heads", "head_dim", "intermediate_size", "moe_intermediate_size", "num_experts_per_tok", "max_position_embeddings", "q_lora_rank",
    "kv_lora_rank", "full_attention_interval",
)  # fmt: skip
_COUNTS_OR_0 = ("n_shared_experts", "shared_expert_intermediate_size", "first_k_dense_replace", "sliding_window", "sliding_window_pattern")
_FLAGS = ("tie_word_embeddings", "attention_bias", "use_sliding_window")


def _wrong_optional(config: Mapping[str, Any], outer: Mapping[str, Any], wanted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(field, what is wrong with it) of those that are there and cannot be read."""
    for key in (*_COUNTS, *_COUNTS_OR_0):
        value = config.get(key)
        least = 0 if key in _COUNTS_OR_0 else 1
        if value is not None and key not in wanted and not _count(value) and not (least == 0 and type(value) is int and value == 0):
            yield key, f"must be a whole number of at least {least}, or null, got {_short(value)}"
    for key in _FLAGS:
        value = config.get(key, outer.get(key))
        if value is not None and not isinstance(value, bool):
            yield key, f"must be true or false, got {_short(value)}"
    types, layers = config.get("layer_types"), config.get("num_hidden_layers")
    if types is not None and not (isinstance(types, list) and all(isinstance(t, str) for t in types)):
        yield "layer_types", f"must be a list of names, got {_short(types)}"
    elif types is not None and _count(layers) and len(types) != layers:
        yield "layer_types", f"names {len(types)} layers, and num_hidden_layers is {layers}"


def _unrelated(config: Mapping[str, Any], family: Family) -> Iterator[tuple[str, str]]:
    """(field, what it contradicts) of numbers that cannot belong to one model."""
    hidden, heads, layers = (config[key] for key in ("hidden_size", "num_attention_heads", "num_hidden_layers"))
    kv_heads, dense = config.get("num_key_value_heads") or heads, config.get("first_k_dense_replace") or 0
    if heads % kv_heads:
        yield "num_key_value_heads", f"{kv_heads} does not divide num_attention_heads {heads}"
    if not family.mla and not config.get("head_dim") and hidden % heads:
        yield "num_attention_heads", f"{heads} does not divide hidden_size {hidden}, and there is no head_dim"
    if family.moe and config["num_experts_per_tok"] > config[family.moe]:
        yield "num_experts_per_tok", f"{config['num_experts_per_tok']} is above {family.moe} {config[family.moe]}"
    if dense > layers:
        yield "first_k_dense_replace", f"{dense} is above num_hidden_layers {layers}"


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
        value_dim=get("v_head_dim"), qkv_bias=bias, max_context=get("max_position_embeddings"), vision="vision_config" in outer,
        quantized=str(quantization.get("quant_method") or "") if isinstance(quantization, Mapping) else "",
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
