"""The plan and what was searched for as JSON: sizes in GiB, times in seconds."""

from __future__ import annotations

from typing import Any

from grpo_rlvr.memory.cheapest import Fit
from grpo_rlvr.memory.estimate import GIB
from grpo_rlvr.memory.plan import Plan
from grpo_rlvr.memory.search import Cluster, Largest
from grpo_rlvr.memory.speed import Interval, Speed


def gib(value: float) -> float:
    return round(value / GIB, 3)


def plan_json(plan: Plan, speed: Speed) -> dict[str, Any]:
    """The plan as data; sizes in GiB, times in seconds."""
    w, engine, deciding = plan.workload, plan.estimate.engine, plan.deciding
    return {
        "verdict": plan.verdict, "fits": plan.fits,
        "peak_gib": gib(deciding.peak), "low_gib": gib(deciding.low), "high_gib": gib(deciding.high), "usable_gib": round(plan.capacity / GIB, 3),
        "decides": {"phase": deciding.name, "moment": deciding.moment, "terms": {k: gib(v) for k, v in plan.decisive_terms()}},
        "phases": [
            {"name": p.name, "peak_gib": gib(p.peak), "low_gib": gib(p.low), "high_gib": gib(p.high), "moment": p.moment,
             "terms": {k: gib(v) for k, v in p.terms.items()}}
            for p in plan.estimate.phases
        ],
        "blockers": [vars(b) for b in plan.blockers],
        "model": {"name": w.shape.name, "architecture": w.shape.model_type, "parameters": w.shape.parameters,
                  "active_parameters": w.shape.active_parameters, "trained_parameters": plan.estimate.states.trained},
        "gpu": {"name": w.gpu.name, "count": w.count, "nodes": w.nodes, "sharding": w.engine, "server_gpus": w.server_gpus},
        "trl": {"version": w.trl, "loss": w.head, "era": w.era.label},
        "settings": {
            "dtype": w.dtype, "lora_rank": w.lora_rank, "quantization": w.quantization, "optimizer": w.optimizer, "batch": w.batch,
            "gradient_accumulation_steps": w.accumulation, "steps_per_generation": w.steps_per_generation, "num_generations": w.generations,
            "prompt_tokens": w.prompt, "completion_tokens": w.completion, "gradient_checkpointing": w.checkpointing, "attention": w.attention,
            "beta": w.beta, "vllm": w.vllm, "vllm_gpu_memory_utilization": w.utilization, "vllm_max_model_length": w.context,
            "vllm_enable_sleep_mode": w.sleep, "vllm_tensor_parallel_size": w.tensor_parallel,
        },
        "vllm": None if engine is None else {
            "budget_gib": gib(engine.budget), "weights_gib": gib(engine.weights), "overhead_gib": gib(engine.fixed),
            "kv_cache_gib": gib(engine.cache), "least_gib": gib(engine.least), "context_tokens": engine.context, "sequences": engine.sequences,
            "wanted_sequences": engine.wanted,
        },
        "speed": speed_json(speed),
        "assumed": list(w.assumed),
    }  # fmt: skip


def speed_json(s: Speed) -> dict[str, Any]:
    def interval(i: Interval | None) -> list[float] | None:
        return None if i is None else [round(i.low, 2), round(i.high, 2)]

    return {
        "rollout_tokens_s": interval(s.tokens_s), "one_sequence_tokens_s": round(s.single, 1), "concurrent_sequences": s.concurrency,
        "rollout_s": interval(s.rollout_s), "training_s": interval(s.train_s), "step_s": interval(s.step_s), "run_s": interval(s.run_s),
    }  # fmt: skip


def fit_json(fit: Fit | None) -> dict[str, Any] | None:
    if fit is None:
        return None
    steps = [{"lever": lv.name, "what": lv.what, "peak_gib": round(p, 3), "saves_gib": round(s, 3), "action": lv.action} for lv, p, s in fit.steps]
    return {
        "levers": steps,
        "patch": fit.patch,
        "verdict": fit.plan.verdict,
        "peak_gib": gib(fit.plan.deciding.peak),
        "phase": fit.plan.deciding.name,
    }


def cluster_json(c: Cluster | None) -> dict[str, Any] | None:
    if c is None:
        return None
    w = c.plan.workload
    return {
        "gpus": c.gpus, "training_gpus": c.train, "nodes": c.nodes, "server_gpus": c.server, "sharding": w.engine, "vllm": w.vllm,
        "vllm_tensor_parallel_size": w.tensor_parallel, "vllm_gpu_memory_utilization": w.utilization, "vllm_max_model_length": w.context,
        "per_device_train_batch_size": w.batch, "gradient_accumulation_steps": w.accumulation,
        "peak_gib": gib(c.plan.deciding.peak), "command": c.command,
    }  # fmt: skip


def largest_json(found: Largest) -> dict[str, Any]:
    peak = None if found.plan is None else gib(found.plan.deciding.peak)
    return {"of": found.what, "value": found.value or None, "peak_gib": peak, "limited_by": found.limited, "patch": found.patch}
