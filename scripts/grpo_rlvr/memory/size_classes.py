"""The tables of references/grpo-memory.md: what each size of model takes on the machine people try it on, and a config that fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grpo_rlvr.memory.catalog import bundled_shape
from grpo_rlvr.memory.cheapest import cheapest_fit
from grpo_rlvr.memory.estimate import GIB
from grpo_rlvr.memory.hardware import find_gpu
from grpo_rlvr.memory.patches import apply_patch, tidy_patch
from grpo_rlvr.memory.plan import Plan, make_plan, tuned
from grpo_rlvr.memory.search import largest
from grpo_rlvr.memory.workload import Workload

CLASSES = (
    ("Up to 3B on 24 GB", "rtx-4090", ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-3B-Instruct")),
    ("7B on 80 GB", "h100-80gb", ("Qwen/Qwen2.5-7B-Instruct",)),
    ("14B on H200", "h200", ("Qwen/Qwen3-14B",)),
    ("32B on H200", "h200", ("Qwen/Qwen3-32B",)),
    ("70B on B200", "b200", ("meta-llama/Llama-3.3-70B-Instruct",)),
    ("8B on DGX Spark", "dgx-spark", ("Qwen/Qwen3-8B",)),
)
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("all weights, float32", {"dtype": "float32"}),
    ("all weights, bfloat16, 8-bit AdamW (rate 1e-5 and more)", {"dtype": "bfloat16", "optimizer": "adamw_8bit", "learning_rate": 1e-5}),
    ("LoRA r16, float32 base", {"dtype": "float32", "lora_rank": 16}),
    ("LoRA r16, bfloat16 base", {"dtype": "bfloat16", "lora_rank": 16}),
    ("QLoRA r16", {"dtype": "bfloat16", "lora_rank": 16, "quantization": "nf4-double"}),
)
PROMPT, COMPLETION, BATCH, ACCUMULATION = 512, 1024, 8, 4


def workload(model: str, gpu: str, **changes: Any) -> Workload:
    """What all tables share: groups of 8, 32 completions an update, vLLM colocated and asleep while training."""
    common = {"batch": BATCH, "accumulation": ACCUMULATION, "steps_per_generation": ACCUMULATION, "prompt": PROMPT, "completion": COMPLETION,
              "vllm": "colocate", "sleep": True, "trl": "1.16"}  # fmt: skip
    return Workload(bundled_shape(model), find_gpu(gpu), **{**common, **changes})


def settled(w: Workload) -> Plan:
    """The plan with vLLM's settings matched and the largest micro-batch that fits, or the one of one completion if none does."""
    plan = None
    for times in (1, 2, 4, 8):
        at = w.but(batch=w.batch // times, accumulation=w.accumulation * times, steps_per_generation=w.steps_per_generation * times)
        ready = tuned(at)
        plan = make_plan(ready if ready is not None else at.but(context=at.length, utilization=0.3))
        if plan.fits:
            break
    return plan


def table(title: str, gpu: str, models: tuple[str, ...]) -> Iterator[str]:
    """One class as Markdown lines."""
    card = find_gpu(gpu)
    yield f"### {title}"
    yield ""
    yield f"{card.title}, {card.plan_gib:g} GiB to plan with; prompts of {PROMPT}, completions of {COMPLETION} tokens."
    yield ""
    yield "| model | what is trained | verdict | rollout | training | micro-batch | longest completion |"
    yield "|---|---|---|---|---|---|---|"
    for model in models:
        for name, changes in METHODS:
            yield _row(model, name, settled(workload(model, gpu, **changes)))


def _row(model: str, method: str, plan: Plan) -> str:
    peaks = {p.name: p.peak / GIB for p in plan.estimate.phases}
    longest = ""
    if plan.fits:
        found = largest(plan.workload.but(context=None), "completion").value
        longest = f"{found:,}"
    rollout = f"{max(peaks['start'], peaks['rollout'], peaks['weight sync']):.1f}"
    return f"| {model.split('/')[1]} | {method} | {plan.verdict} | {rollout} | {peaks['training step']:.1f} | {plan.workload.batch} | {longest} |"


def base_config(model: str, gpu: str) -> dict[str, Any]:
    """A plain config of the class, before anything was done for memory."""
    return {
        "model": {"name_or_path": model}, "hardware": {"gpu": gpu},
        "data": {"train": "data/train.jsonl", "prompt_tokens": PROMPT}, "rewards": [{"use": "math"}],
        "grpo": {"num_generations": 8, "per_device_train_batch_size": BATCH, "gradient_accumulation_steps": ACCUMULATION,
                 "max_completion_length": COMPLETION, "use_vllm": True},
    }  # fmt: skip


def ready_config(model: str, gpu: str) -> dict[str, Any] | None:
    """The plain config with the cheapest changes that fit; None if there are none."""
    raw = base_config(model, gpu)
    fit = cheapest_fit(workload(model, gpu, sleep=False))
    return None if fit is None else apply_patch(raw, tidy_patch(fit.patch, raw))


def markdown() -> str:
    """All classes, each with its table and a block of `config.yaml` that fits for its largest model."""
    from grpo_rlvr.yaml_file import dump_mapping

    lines: list[str] = []
    for title, gpu, models in CLASSES:
        lines += [*table(title, gpu, models), ""]
        ready = ready_config(models[-1], gpu)
        if ready is not None:
            shown = {k: ready[k] for k in ("model", "hardware", "grpo")}
            lines += ["```yaml", dump_mapping(shown).rstrip(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"
