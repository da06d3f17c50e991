"""Generation without vLLM: how TRL runs it under adapters and under full tuning, and the closed form against traces of it."""

from __future__ import annotations

import statistics
import warnings

import pytest
from grpo_rlvr.memory.estimate import estimate
from grpo_rlvr.memory.hardware import find_gpu
from grpo_rlvr.memory.model_config import read_shape
from grpo_rlvr.memory.workload import Workload

from oracle.test_closed_form import FAMILIES

pytestmark = pytest.mark.model

# Qwen2.5-7B's layers, of which four are enough: one after the other they take the same room.
SEVEN = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 4, "num_attention_heads": 28, "num_key_value_heads": 4,
         "vocab_size": 152_064, "tie_word_embeddings": False}  # fmt: skip
SIZES = {**FAMILIES, "qwen2": SEVEN}
LORA, SHORT, LONG = {"lora_rank": 16}, (32, 512, 1024), (8, 64, 2048)

# (family, what is trained, (completions at once, prompt, completion))
ROLLOUTS: list[tuple[str, dict, tuple[int, int, int]]] = [
    ("qwen2", {}, SHORT),
    ("qwen2", {}, LONG),
    ("qwen2", {"dtype": "float32"}, SHORT),
    ("qwen2", {"dtype": "float32"}, LONG),
    ("qwen2", LORA, SHORT),
    ("qwen2", LORA, LONG),
    ("qwen2", LORA, (4, 4000, 64)),
    ("qwen2", {**LORA, "dtype": "float32"}, SHORT),
    ("qwen2", {**LORA, "dtype": "float32"}, LONG),
    ("qwen2", {**LORA, "targets": ("q_proj", "v_proj")}, SHORT),
    ("qwen2", {**LORA, "targets": ("down_proj",)}, SHORT),
    ("qwen2", {**LORA, "targets": ("down_proj",), "dtype": "float32"}, SHORT),
    ("qwen2", {**LORA, "quantization": "nf4"}, SHORT),
    ("qwen2", {**LORA, "quantization": "nf4"}, LONG),
    ("llama", LORA, (32, 256, 128)),
    ("qwen3", LORA, (32, 256, 128)),
    ("qwen3", {**LORA, "dtype": "float32"}, (16, 64, 1024)),
    ("mistral", {"dtype": "float32"}, (32, 256, 128)),
    ("mistral", LORA, (32, 256, 128)),
    ("phi3", LORA, (32, 256, 128)),
    ("phi3", {**LORA, "dtype": "float32"}, (32, 256, 128)),
    ("phi3", {**LORA, "targets": ("qkv_proj",)}, (32, 256, 128)),
    ("phi3", {}, (32, 256, 128)),
    ("gemma3_text", LORA, (32, 256, 128)),
    ("qwen3_moe", {}, (32, 256, 128)),
    ("qwen3_moe", {}, (16, 64, 1024)),
    ("qwen3_moe", LORA, (32, 256, 128)),
    ("qwen3_moe", LORA, (16, 64, 1024)),
    ("qwen3_moe", {**LORA, "targets": ("q_proj", "v_proj")}, (32, 256, 128)),
]


def planned(w: Workload) -> float:
    """What generation takes beyond weights, adapters and states."""
    terms = next(p.terms for p in estimate(w).phases if p.name == "rollout")
    return terms["generation"] + terms.get("bf16_copies", 0)


def planned_and_traced(family: str, training: dict, sizes: tuple[int, int, int]) -> tuple[float, float]:
    from transformers import AutoConfig

    from oracle.rollout import trace_rollout

    config = AutoConfig.for_model(family, **SIZES[family])
    if "num_experts" in SIZES[family]:
        config._experts_implementation = "grouped_mm"
    batch, prompt, completion = sizes
    common = {"dtype": "bfloat16", **training}
    w = Workload(read_shape(config.to_dict(), family), find_gpu("h200"), batch=batch, prompt=prompt, completion=completion, **common)
    traced = trace_rollout(
        config, batch=batch, prompt=prompt, completion=completion, weights=w.dtype, lora=w.lora_rank or None,
        targets=list(w.targets) if w.targets else "all-linear", adapters={4: "float32", 2: "bfloat16"}[w.adapter_width],
        quantize=w.quantization != "none",
    )  # fmt: skip
    return planned(w), traced.peak


def test_the_closed_form_of_generation_is_what_is_traced():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ratios = {str(case): ours / theirs for case in ROLLOUTS for ours, theirs in [planned_and_traced(*case)]}
    text = "\n".join(f"{ratio:>7.3f}  {case}" for case, ratio in ratios.items())
    assert len(ratios) == len(ROLLOUTS)
    assert abs(statistics.mean(ratios.values()) - 1) <= 0.01, text
    assert max(abs(ratio - 1) for ratio in ratios.values()) <= 0.03, text


def test_linear_attention_is_planned_with_room():
    for training in ({}, LORA):
        ours, theirs = planned_and_traced("qwen3_5_text", training, (32, 256, 128))
        assert 1 <= ours / theirs <= 1.25


def seen_while_generating(tmp_path, monkeypatch, lora: bool, dtype: str, **settings) -> dict[str, set]:
    """Autocast, the types inside, those of the cache, and whether gradients are there, in one update of TRL's own trainer on the CPU."""
    import torch
    from datasets import Dataset
    from grpo_rlvr.demo.tiny import build_tokenizer
    from peft import LoraConfig
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.cache_utils import DynamicLayer
    from trl import GRPOConfig, GRPOTrainer

    seen: dict[str, set] = {"autocast": set(), "adapter": set(), "out": set(), "cache": set()}
    inside, gradients = [], []
    tokenizer = build_tokenizer()
    config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id)  # fmt: skip
    args = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=True, per_device_train_batch_size=4, num_generations=4, max_completion_length=4,
                      max_steps=1, report_to=[], save_strategy="no", disable_tqdm=True, **settings)  # fmt: skip
    adapters = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM") if lora else None
    trainer = GRPOTrainer(LlamaForCausalLM(config).to(getattr(torch, dtype)), lambda completions, **_: [float(len(c)) for c in completions], args,
                          Dataset.from_dict({"prompt": ["1+1"] * 4}), processing_class=tokenizer, peft_config=adapters)  # fmt: skip
    generate, update = GRPOTrainer._generate_single_turn, DynamicLayer.update

    def watched(self, *more, **named):
        inside.append(True)
        gradients.append(any(p.grad is not None for p in trainer.model.parameters()))
        try:
            return generate(self, *more, **named)
        finally:
            inside.pop()

    def cached(self, *more, **named):
        out = update(self, *more, **named)
        seen["cache"] |= {str(self.keys.dtype), str(self.values.dtype)}
        return out

    def hook(kind):
        def told(module, given, out):
            if inside:
                seen["autocast"].add(torch.is_autocast_enabled("cpu"))
                seen[kind].add(str(out.dtype))

        return told

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", watched)
    monkeypatch.setattr(DynamicLayer, "update", cached)
    for name, module in trainer.model.named_modules():
        if name.endswith("q_proj"):
            module.register_forward_hook(hook("out"))
        if name.endswith("q_proj.lora_B.default"):
            module.register_forward_hook(hook("adapter"))
    trainer.train()
    return {**seen, "gradients": gradients}


F32, BF16 = {"torch.float32"}, {"torch.bfloat16"}


@pytest.mark.parametrize(
    ("lora", "dtype", "autocast", "adapter", "out", "cache"),
    [
        (False, "float32", True, set(), BF16, F32),
        (False, "bfloat16", True, set(), BF16, BF16),
        (True, "bfloat16", False, F32, BF16, BF16),
        (True, "float32", False, F32, F32, F32),
    ],
)
def test_trl_generates_under_autocast_without_adapters_and_without_it_with_them(tmp_path, monkeypatch, lora, dtype, autocast, adapter, out, cache):
    seen = seen_while_generating(tmp_path, monkeypatch, lora, dtype)
    assert seen == {"autocast": {autocast}, "adapter": adapter, "out": out, "cache": cache, "gradients": [False]}


def test_gradients_are_there_at_a_generation_in_the_middle_of_an_update(tmp_path, monkeypatch):
    seen = seen_while_generating(tmp_path, monkeypatch, True, "bfloat16", gradient_accumulation_steps=4, steps_per_generation=2)
    assert seen["gradients"] == [False, True]


@pytest.mark.parametrize(("batch", "prompt", "completion"), [(32, 128, 16), (32, 32, 256)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_generation_with_adapters_is_what_runs(dtype, batch, prompt, completion):
    """The real thing, weights and all: `generate` of PEFT's model as accelerate prepared it, left-padded prompts."""
    import torch
    from accelerate import Accelerator
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, LlamaConfig

    from oracle.tracer import Tracker

    config = LlamaConfig(hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, vocab_size=2000,
                         tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
        model = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
        accelerator = Accelerator(mixed_precision="bf16", cpu=True)
        model = accelerator.unwrap_model(accelerator.prepare(model))
        ids, tracker = torch.ones(batch, prompt, dtype=torch.long), Tracker()
        mask = torch.ones_like(ids)
        mask[0, :3] = 0
        with torch.no_grad(), tracker:
            for p in model.parameters():
                tracker.add(p.data)
            held = tracker.now
            model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=completion, min_new_tokens=completion, do_sample=True, top_k=0,
                           pad_token_id=0)  # fmt: skip
    w = Workload(read_shape(config.to_dict(), "x"), find_gpu("h200"), dtype=dtype, lora_rank=16, batch=batch, prompt=prompt, completion=completion)
    assert 0.95 <= planned(w) / (max(tracker.peaks.values()) - held) <= 1.05
