"""The closed form against the real thing: transformers, PEFT and TRL's loss traced with fake tensors. A formula that drifts fails here."""

from __future__ import annotations

import statistics
import warnings

import pytest
from grpo_rlvr.memory.estimate import estimate
from grpo_rlvr.memory.hardware import find_gpu
from grpo_rlvr.memory.model_config import read_shape
from grpo_rlvr.memory.trl_eras import era_of
from grpo_rlvr.memory.workload import Workload

pytestmark = pytest.mark.model

PLAIN = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
         "vocab_size": 32_000}  # fmt: skip
EXPERTS = {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 256}
FAMILIES = {
    "llama": {**PLAIN, "tie_word_embeddings": False},
    "llama-tied": {**PLAIN, "tie_word_embeddings": True},
    "qwen2": {**PLAIN, "tie_word_embeddings": True, "vocab_size": 64_000},
    "qwen3": {**PLAIN, "num_attention_heads": 12, "head_dim": 128, "tie_word_embeddings": False},
    "mistral": {**PLAIN, "hidden_size": 768, "num_attention_heads": 12, "tie_word_embeddings": False, "sliding_window": None},
    "phi3": {**PLAIN, "tie_word_embeddings": False, "pad_token_id": 0},
    "gemma3_text": {**PLAIN, "tie_word_embeddings": True, "sliding_window": 512, "layer_types": ["sliding_attention"] * 2 + ["full_attention"]},
    "qwen3_moe": {**PLAIN, **EXPERTS, "tie_word_embeddings": False, "norm_topk_prob": True},
}  # fmt: skip

# (family, what is trained, what else): 8 x (128 + 512) tokens unless said
MATRIX: list[tuple[str, dict, dict]] = [
    ("llama", {}, {}),
    ("llama", {"dtype": "float32"}, {}),
    ("llama", {"lora_rank": 16}, {}),
    ("llama", {"lora_rank": 16, "dtype": "float32"}, {}),
    ("llama", {"lora_rank": 16, "targets": ("q_proj", "v_proj")}, {}),
    ("llama", {"lora_rank": 16, "quantization": "nf4"}, {}),
    ("llama", {}, {"checkpointing": False}),
    ("llama", {"dtype": "float32"}, {"checkpointing": False}),
    ("llama", {}, {"accumulation": 1}),
    ("llama", {"dtype": "float32"}, {"accumulation": 1, "batch": 1, "completion": 256}),
    ("llama", {}, {"era": era_of("1.9")}),
    ("llama-tied", {}, {"optimizer": "adamw_8bit"}),
    ("llama-tied", {}, {"batch": 1, "completion": 64, "prompt": 64}),
    ("llama-tied", {"dtype": "float32"}, {"batch": 1, "completion": 64, "prompt": 64}),
    ("qwen2", {}, {}),
    ("qwen2", {"dtype": "float32"}, {}),
    ("qwen2", {"lora_rank": 64}, {"batch": 2, "completion": 3000}),
    ("qwen3", {}, {}),
    ("qwen3", {"lora_rank": 16}, {"batch": 1, "completion": 4000}),
    ("mistral", {"dtype": "float32"}, {}),
    ("mistral", {"lora_rank": 16, "dtype": "float32"}, {"batch": 16}),
    ("phi3", {"dtype": "float32"}, {}),
    ("gemma3_text", {}, {}),
    ("gemma3_text", {"lora_rank": 16}, {}),
    ("qwen3_moe", {}, {}),
    ("qwen3_moe", {"lora_rank": 8}, {}),
]


def predicted_and_traced(family: str, training: dict, rest: dict) -> dict[str, tuple[float, float]]:
    from transformers import AutoConfig

    from memory.tracer import trace_step

    kind = family.partition("-")[0]
    config = AutoConfig.for_model(kind, **FAMILIES[family])
    if "num_experts" in FAMILIES[family]:
        config._experts_implementation = "grouped_mm"
    shape = read_shape(config.to_dict(), family)
    w = Workload(
        shape, find_gpu("h200"), **{"dtype": "bfloat16", "batch": 8, "prompt": 128, "completion": 512, "accumulation": 2, **training, **rest}
    )
    traced = trace_step(
        config, batch=w.batch, prompt=w.prompt, completion=w.completion, weights=w.dtype, lora=w.lora_rank or None,
        targets=list(w.targets) if w.targets else "all-linear", checkpointing=w.checkpointing, accumulate=w.accumulation > 1, head=w.head,
        optimizer=w.optimizer, quantize=w.quantization != "none",
    )  # fmt: skip
    phases = {p.name: sum(v for k, v in p.terms.items() if k not in ("context", "fragmentation")) for p in estimate(w).phases}
    assert traced.trained == estimate(w).states.trained, "trained parameters"
    return {"training step": (phases["training step"], traced.train), "log-probs": (phases["log-probs"], traced.peaks["old_logps"]),
            "optimizer step": (phases["optimizer step"], traced.peaks["optimizer"])}  # fmt: skip


def test_the_closed_form_is_what_is_traced():
    ratios: dict[str, list[float]] = {}
    report = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in MATRIX:
            for phase, (ours, theirs) in predicted_and_traced(*case).items():
                ratios.setdefault(phase, []).append(ours / theirs)
                report.append(f"{phase:<15}{ours / theirs:>7.3f}  {case}")
    text = "\n".join(report)
    assert len(MATRIX) >= 24
    for phase, worst in (("training step", 0.08), ("log-probs", 0.10), ("optimizer step", 0.03)):
        assert abs(statistics.mean(ratios[phase]) - 1) <= 0.02, text
        assert max(abs(r - 1) for r in ratios[phase]) <= worst, text
