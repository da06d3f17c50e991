"""The model: precision of its weights, adapters, the reference, experts."""

from __future__ import annotations

from collections.abc import Iterator

from grpo_rlvr.training.findings import Finding, error, note, warning
from grpo_rlvr.training.setup import Setup

# Below this rate most updates of a bfloat16 weight are smaller than half its spacing and are rounded away.
BF16_SAFE_RATE = 1e-5
HIGH_RATE, HIGH_LORA_RATE = 1e-5, 1e-3
LARGE = 300_000_000  # parameters; below, high rates and whole float32 copies do no harm


def _precision(s: Setup) -> Iterator[Finding]:
    written, rate = s.config.model.dtype, s["learning_rate"]
    dtype = s.seen.dtype if written == "auto" and s.seen.dtype else written
    if not s.lora and dtype != "float32" and rate < BF16_SAFE_RATE:
        certain = dtype == "bfloat16"
        message = f"learning_rate {rate:g} with {dtype} weights and full tuning: below {BF16_SAFE_RATE:g} most updates are rounded away"
        if certain:
            message += " (about 1% of the weights move at 5e-7)"
        elif dtype == "auto":
            message += " if the checkpoint is bfloat16, as most are"
        fix = f"set model.dtype: float32 (the computation stays bf16 by autocast), or model.lora, or learning_rate: {BF16_SAFE_RATE:.1e} or more"
        yield (error if certain else warning)("weights-rounded", message, fix)
    count = s.seen.parameters or 0
    if not s.lora and rate > HIGH_RATE and count >= LARGE:
        yield warning(
            "high-rate",
            f"learning_rate {rate:g} is high for full tuning of {count / 1e9:.2g}B parameters: 1e-6 to {HIGH_RATE:g} is usual",
            "set learning_rate: 1.0e-6",
        )
    if written == "float32" and count >= LARGE:
        each, what = (4, "the frozen base: 4 bytes a parameter") if s.lora else (16, "weights, gradients and Adam: 16 bytes a parameter")
        half = f" ({count * 2 / 1e9:.0f} GB in bfloat16, which is safe under adapters)" if s.lora else ""
        yield note(
            "float32-memory", f"float32 keeps {count * each / 1e9:.0f} GB for {what} x {count / 1e9:.2g}B{half}; activations and vLLM come on top", ""
        )
    if s["cast_lm_head_to_fp32"] and dtype == "float32":
        yield note("head-cast", "cast_lm_head_to_fp32 does nothing: the weights are float32 already", "")


def _adapters(s: Setup) -> Iterator[Finding]:
    lora, rate, quantized = s.config.model.lora, s["learning_rate"], (s["model_init_kwargs"] or {}).get("quantization_config") is not None
    if lora is None:
        if quantized:
            fix = "set model.lora: {quantize: nf4} and delete quantization_config"
            yield error("quantized-full", "model_init_kwargs.quantization_config without model.lora: quantized weights cannot be tuned", fix)
        return
    if rate < BF16_SAFE_RATE:
        yield warning("lora-rate", f"learning_rate {rate:g} is low for LoRA: {BF16_SAFE_RATE:g} or more is usual", "set learning_rate: 1.0e-5")
    if rate > HIGH_LORA_RATE:
        yield warning("lora-rate-high", f"learning_rate {rate:g} is high for LoRA: 1e-5 to {HIGH_LORA_RATE:g} is usual", "set learning_rate: 1.0e-4")
    if lora.dropout > 0 and not s["disable_dropout"] and (not s.on_policy or s.weighs_gap):
        what = f"model.lora.dropout {lora.dropout:g}: the old log-probabilities are computed under another draw of it than the new ones, so the"
        narrow = s["importance_sampling_level"] == "sequence"
        what += " ratio leaves 1 before any update" + (", and the narrow bounds of the sequence level clip that noise" if narrow else "")
        yield (warning if narrow else note)("dropout-ratio", what, "set model.lora.dropout: 0.0")
    targets = [lora.target_modules] if isinstance(lora.target_modules, str) else list(lora.target_modules)
    if "lm_head" in targets:
        yield error(
            "lora-head", "model.lora.target_modules names lm_head, which TRL refuses: it would never be trained", "delete lm_head from the list"
        )
    if s.seen.experts and "all-linear" in targets:
        yield note(
            "lora-router",
            f"target_modules all-linear on a mixture of {s.seen.experts} experts puts adapters on the router too, which moves tokens between experts",
            "name the layers (q_proj, k_proj, v_proj, o_proj) to leave the router as it is",
        )
    if quantized and lora.quantize:
        yield error("quantized-twice", "model.lora.quantize and model_init_kwargs.quantization_config are both set", "delete one of them")
    if lora.quantize == "int8" and s["use_vllm"]:
        yield error("quantized-vllm", "vLLM cannot take 8-bit weights from the trainer", "set model.lora.quantize: nf4, or use_vllm: false")


def _reference(s: Setup) -> Iterator[Finding]:
    if s["beta"] > 0 and not s.lora:
        size = f", {s.seen.parameters * (2 if s.config.model.dtype == 'bfloat16' else 4) / 1e9:.1f} GB" if s.seen.parameters else ""
        yield note(
            "reference-copy",
            f"beta {s['beta']:g} keeps a second copy of the model as reference ({s.config.model.dtype}{size})",
            "beta: 0.0 needs none; with LoRA it costs nothing",
        )
    name = s.config.model.name_or_path.rstrip("/").rpartition("/")[2]
    if s["beta"] > 0 and name.startswith("checkpoint-"):
        yield warning(
            "reference-moves",
            f"beta {s['beta']:g} and the model is {name}: the reference would be this checkpoint, not the model the run began with",
            "give the first model and go on with --resume",
        )
    if s["sync_ref_model"] and s["beta"] == 0:
        yield error("no-reference", "sync_ref_model is true but beta is 0: there is no reference model", "set beta above 0 or delete sync_ref_model")
    elif s["sync_ref_model"] and s.lora:
        yield error("reference-adapters", "sync_ref_model is true with model.lora: TRL has no reference copy to move there", "delete sync_ref_model")


def _family(s: Setup) -> Iterator[Finding]:
    """What the model's own config.json shows: images, experts."""
    if s.seen.sees_images:
        yield error(
            "vision-model",
            "the model takes images (its config.json has a vision part): training here is for text models only",
            "take a text model; for images use TRL's GRPOTrainer directly: https://huggingface.co/docs/trl/grpo_trainer",
        )
    coefficient, level = s["router_aux_loss_coef"], s["importance_sampling_level"]
    if s.seen.model is not None and not s.seen.experts and coefficient:
        yield error("dense-router", f"router_aux_loss_coef is {coefficient:g} and the model has no experts: TRL refuses that", "delete the line")
    if not s.seen.experts:
        return
    if level != "sequence":
        yield error(
            "moe-ratio",
            f"a mixture of {s.seen.experts} experts with importance_sampling_level {level}: after an update other experts score the same token,"
            " and its ratio jumps (GSPO, arXiv 2507.18071)",
            "set variant: gspo",
        )
    if "router_aux_loss_coef" not in s.config.grpo:
        own = s.seen.text_model.get("router_aux_loss_coef")
        yield warning(
            "moe-router",
            f"router_aux_loss_coef is not written: TRL adds the model's auxiliary loss with its own coefficient ({own}), so the loss is not near 0",
            f"set router_aux_loss_coef: {own if isinstance(own, float) else 0.001:g} to keep the load balanced, or 0.0 for the reward alone",
        )
    if "zero3" in str(s["deepspeed"] or "").lower().replace("_", "").replace("-", ""):
        yield warning(
            "moe-zero3",
            f"ZeRO-3 with {s.seen.experts} experts can hang: a process whose tokens miss an expert never asks for its weights",
            "make the expert blocks leaf modules (deepspeed.utils.set_z3_leaf_modules), or use FSDP2",
        )


def _checkpointing(s: Setup) -> Iterator[Finding]:
    for name in ("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs"):
        if isinstance(s[name], dict) and s[name].get("offload"):
            yield error("offload", f"{name} asks for offload, which fails in GRPO after the first generation", "delete offload")
    if s["use_liger_kernel"]:
        yield note(
            "liger",
            "use_liger_kernel is deprecated in TRL and swaps layer kernels only: the fused loss is always on",
            "write model_init_kwargs: {use_kernels: true}",
        )


RULES = (_precision, _adapters, _reference, _family, _checkpointing)
