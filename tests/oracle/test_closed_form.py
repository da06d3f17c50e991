"""The closed form against the real thing: transformers, PEFT and TRL's loss traced with fake tensors. A formula that drifts fails here."""

from __future__ import annotations

import json
import statistics
import warnings

import pytest
from grpo_rlvr.memory.estimate import estimate
from grpo_rlvr.memory.hardware import find_gpu
from grpo_rlvr.memory.model_config import read_shape
from grpo_rlvr.memory.trl_eras import era_of
from grpo_rlvr.memory.workload import Workload

pytestmark = pytest.mark.model

PLAIN = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
         "vocab_size": 32_000}  # fmt: skip
EXPERTS = {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 256}
FAMILIES = {
    "llama": {**PLAIN, "tie_word_embeddings": False},
    "llama-tied": {**PLAIN, "tie_word_embeddings": True},
    "qwen2": {**PLAIN, "tie_word_embeddings": True, "vocab_size": 64_000},
    "qwen3": {**PLAIN, "num_attention_heads": 12, "head_dim": 128, "tie_word_embeddings": False},
    "mistral": {**PLAIN, "hidden_size": 768, "num_attention_heads": 12, "tie_word_embeddings": False, "sliding_window": None},
    "phi3": {**PLAIN, "tie_word_embeddings": False, "pad_token_id": 0},
    "gemma3_text": {**PLAIN, "tie_word_embeddings": True, "sliding_window": 512, "layer_types": ["sliding_attention", "full_attention"]},
    "qwen3_5_text": {**PLAIN, "tie_word_embeddings": True, "num_hidden_layers": 2, "full_attention_interval": 2, "linear_conv_kernel_dim": 4,
                     "linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_num_key_heads": 8, "linear_num_value_heads": 16},
    "qwen3_moe": {**PLAIN, **EXPERTS, "tie_word_embeddings": False, "norm_topk_prob": True},
}  # fmt: skip

# (family, what is trained, what else): 8 x (128 + 512) tokens unless said
MATRIX: list[tuple[str, dict, dict]] = [
    ("llama", {}, {}),
    ("llama", {"dtype": "float32"}, {}),
    ("llama", {"lora_rank": 16}, {}),
    ("llama", {"lora_rank": 16, "dtype": "float32"}, {}),
    ("llama", {"lora_rank": 16, "quantization": "nf4"}, {}),
    ("llama", {}, {"checkpointing": False}),
    ("llama", {"dtype": "float32"}, {"checkpointing": False}),
    ("llama", {}, {"accumulation": 1}),
    ("llama", {"dtype": "float32"}, {"accumulation": 1, "batch": 1, "completion": 256}),
    ("llama", {}, {"era": era_of("1.9")}),
    ("llama", {"beta": 0.04}, {}),
    ("llama", {"beta": 0.04, "dtype": "float32"}, {}),
    ("llama", {"beta": 0.04, "lora_rank": 16}, {}),
    ("llama", {"beta": 0.04, "lora_rank": 16, "quantization": "nf4"}, {"batch": 2}),
    ("llama-tied", {}, {"optimizer": "adamw_8bit"}),
    ("llama-tied", {}, {"batch": 1, "completion": 64, "prompt": 64}),
    ("llama-tied", {"dtype": "float32"}, {"batch": 1, "completion": 64, "prompt": 64}),
    ("qwen2", {}, {}),
    ("qwen2", {"dtype": "float32"}, {}),
    ("qwen2", {"lora_rank": 64}, {"batch": 2, "completion": 3000}),
    ("qwen3", {}, {}),
    ("qwen3", {"lora_rank": 16}, {"batch": 1, "completion": 4000}),
    ("mistral", {"dtype": "float32"}, {}),
    ("phi3", {"dtype": "float32"}, {}),
    ("gemma3_text", {}, {}),
    ("gemma3_text", {"lora_rank": 16}, {}),
    ("qwen3_5_text", {}, {"batch": 2}),
    ("qwen3_moe", {}, {}),
    ("qwen3_moe", {"lora_rank": 8}, {}),
    ("qwen3_moe", {"beta": 0.04}, {"batch": 2}),
]


def predicted_and_traced(family: str, training: dict, rest: dict) -> dict[str, tuple[float, float]]:
    from transformers import AutoConfig

    from oracle.tracer import trace_step

    kind = family.partition("-")[0]
    config = AutoConfig.for_model(kind, **FAMILIES[family])
    if "num_experts" in FAMILIES[family]:
        config._experts_implementation = "grouped_mm"
    shape = read_shape(config.to_dict(), family)
    w = Workload(
        shape, find_gpu("h200"), **{"dtype": "bfloat16", "batch": 8, "prompt": 128, "completion": 512, "accumulation": 2, **training, **rest}
    )
    w = w.but(steps_per_generation=w.accumulation)  # as TRL has it, and as it is traced: log-probabilities before the first backward of an update
    traced = trace_step(
        config, batch=w.batch, prompt=w.prompt, completion=w.completion, weights=w.dtype, lora=w.lora_rank or None,
        targets=list(w.targets) if w.targets else "all-linear", checkpointing=w.checkpointing, accumulate=w.accumulation > 1, head=w.head,
        optimizer=w.optimizer, quantize=w.quantization != "none",
        beta=w.beta,
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
    assert len(MATRIX) >= 24 and {bool(t.get("beta")) for _, t, _ in MATRIX} == {True, False}
    for phase, worst in (("training step", 0.08), ("log-probs", 0.10), ("optimizer step", 0.03)):
        assert abs(statistics.mean(ratios[phase]) - 1) <= 0.02, text
        assert max(abs(r - 1) for r in ratios[phase]) <= worst, text


@pytest.mark.parametrize(("vocabulary", "batch", "prompt", "completion"), [(1000, 32, 64, 64), (8000, 16, 200, 40)])
def test_generation_by_transformers_is_what_runs(vocabulary, batch, prompt, completion):
    import torch
    from accelerate import Accelerator
    from transformers import AutoModelForCausalLM, LlamaConfig

    from oracle.tracer import Tracker

    config = LlamaConfig(hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                         vocab_size=vocabulary, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accelerator = Accelerator(mixed_precision="bf16", cpu=True)
        model = accelerator.unwrap_model(accelerator.prepare(AutoModelForCausalLM.from_config(config)))
        tracker = Tracker()
        with torch.no_grad(), tracker:
            for p in model.parameters():
                tracker.add(p.data)
            model.generate(torch.ones(batch, prompt, dtype=torch.long), max_new_tokens=completion, min_new_tokens=completion, do_sample=True, top_k=0,
                           pad_token_id=0)  # fmt: skip
    w = Workload(read_shape(config.to_dict(), "x"), find_gpu("h200"), batch=batch, prompt=prompt, completion=completion)
    terms = next(p.terms for p in estimate(w).phases if p.name == "rollout")
    ours = terms["weights"] + terms["generation"] + terms["bf16_copies"]
    assert 0.98 <= ours / max(tracker.peaks.values()) <= 1.12


SMALL: dict[str, dict] = {
    "gemma3_text": {},
    "phi3": {},
    "glm4": {},
    "gpt_oss": {"num_local_experts": 8},
    "glm4_moe": {"n_routed_experts": 8},
    "deepseek_v3": {"n_routed_experts": 8, "n_group": 1, "topk_group": 1},
    "qwen3_5_text": {},
    "qwen3_5_moe_text": {"num_experts": 8},
}


@pytest.mark.parametrize("kind", SMALL)
def test_parameters_and_adapters_are_those_that_are_made(kind):
    import torch
    from grpo_rlvr.memory.catalog import FILE
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    models = json.loads(FILE.read_text(encoding="utf-8"))["models"]
    fields = next(dict(m) for m in models.values() if m["model_type"] == kind)
    fields = {k: v for k, v in fields.items() if k not in ("parameters", "source")} | {"num_hidden_layers": 4, **SMALL[kind]}
    shape = read_shape(fields, kind)
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**fields))
        assert sum(p.numel() for p in model.parameters()) == shape.parameters
        model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"))
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == shape.lora_parameters(8, None)
