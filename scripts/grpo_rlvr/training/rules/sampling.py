"""How completions are drawn: temperature, cut distributions, vLLM."""

from __future__ import annotations

import math
from collections.abc import Iterator

from grpo_rlvr.training.findings import Finding, error, note, warning
from grpo_rlvr.training.setup import Setup


def _sampling(s: Setup) -> Iterator[Finding]:
    if s["temperature"] <= 0:
        yield error("temperature", f"temperature is {s['temperature']:g}: sampling needs a value above 0", "set temperature: 1.0")
    # generation_kwargs override the settings of the same name.
    values = {**{n: s[n] for n in ("top_p", "top_k", "min_p")}, **(s["generation_kwargs"] or {})}
    cut = [f"{n} {values[n]}" for n, off in (("top_p", (None, 1)), ("top_k", (None, 0, -1)), ("min_p", (None, 0))) if values[n] not in off]
    if cut and not s["use_vllm"]:
        yield note(
            "cut-sampling",
            f"{', '.join(cut)}: completions come from a cut distribution, and the update is made for the whole one",
            "delete them (top_p 1.0, top_k 0, no min_p)",
        )
    elif cut:
        yield warning(
            "truncated-sampling",
            f"{', '.join(cut)} with vLLM: its probabilities are of the cut distribution, the trainer's of the whole one;"
            " the correction for the difference takes most of the gradient of long completions away",
            "delete them (top_p 1.0, top_k 0, no min_p)",
        )


def _vllm(s: Setup) -> Iterator[Finding]:
    if not s["use_vllm"]:
        return
    context, completion = s["vllm_max_model_length"], s["max_completion_length"]
    if s["vllm_mode"] == "colocate" and context is None:
        fix = f"set vllm_max_model_length to the longest prompt + max_completion_length {completion}"
        yield warning("vllm-context", "use_vllm without vllm_max_model_length reserves memory for the model's whole context", fix)
    elif context is not None and completion is not None and context <= completion:
        yield error(
            "vllm-context",
            f"vllm_max_model_length {context} leaves no room for a prompt beside max_completion_length {completion}",
            f"set it above {completion}",
        )
    lora, dtype = s.config.model.lora, s.config.model.dtype
    if lora is not None and (dtype != "float32" or lora.quantize):
        base = lora.quantize or dtype
        yield warning(
            "merge-drift",
            f"LoRA on a {base} base with vLLM: each weight update merges and unmerges the adapters, which rounds"
            + (" small updates away" if lora.quantize else " the base"),
            "set model.dtype: float32 (and no quantize) where memory_plan.py says that it fits, or use_vllm: false; else watch "
            "sampling/sampling_logp_difference/mean",
        )
    parallel = s["vllm_tensor_parallel_size"]
    if s["vllm_mode"] == "colocate" and s.world % parallel:
        yield error(
            "tensor-parallel",
            f"vllm_tensor_parallel_size {parallel} does not divide the {s.world} process(es) that train: colocate splits vLLM over them",
            f"set it to a divisor of {s.world}, or vllm_mode: server",
        )
    if s["vllm_mode"] == "server" and s["temperature"] != 1:
        yield note(
            "server-temperature",
            f"temperature {s['temperature']:g} with a vLLM server: its probabilities must be those after it, or the ratio is off from step 1",
            "start the server with --logprobs-mode processed_logprobs",
        )
    mode = s["vllm_importance_sampling_mode"]
    limit, top = completion or 0, s["vllm_importance_sampling_clip_max"]
    if mode.startswith("sequence") and s["vllm_importance_sampling_correction"] and top and limit >= 1024:
        most = math.floor(100 * math.log(top))
        yield note(
            "sequence-mask",
            f"vllm_importance_sampling_mode {mode} multiplies over the tokens: a systematic difference of 0.01 nats a token, as bfloat16 can give,"
            f" passes clip_max {top:g} at {most} tokens, and max_completion_length is {limit}",
            "watch sampling/importance_sampling_ratio/mean; if it leaves 1, set vllm_importance_sampling_mode: token_truncate",
        )
    if s["loss_type"] == "vespo" and s["vllm_importance_sampling_correction"] and not mode.startswith("token"):
        yield error(
            "vespo-mode", f"loss_type vespo refuses vllm_importance_sampling_mode {mode}", "set vllm_importance_sampling_mode: token_truncate"
        )


RULES = (_sampling, _vllm)
