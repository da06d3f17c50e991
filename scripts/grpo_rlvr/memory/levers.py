"""What can be changed to make a run fit: each change as a new workload and as a patch to `config.yaml`, tried in order of cost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.memory.estimate import GIB
from grpo_rlvr.memory.patches import merge
from grpo_rlvr.memory.plan import Plan, make_plan, trainer_fits, tuned
from grpo_rlvr.memory.trl_eras import NOW
from grpo_rlvr.memory.workload import Workload

LORA_RATE = 1e-5
BF16_SAFE_RATE = 1e-5  # as the lint has it: below, bf16 weights round most updates of full tuning away
SHORTEST = 256
A_MACHINE = 8  # GPUs over which an engine that is somewhere else may be spread


@dataclass(frozen=True)
class Lever:
    """One change. `cost` orders what is tried first; `patch` is what changes in the config, None deleting a key; `changes` the workload's fields."""

    name: str
    what: str
    cost: float
    changes: dict[str, Any]
    patch: dict[str, dict[str, Any]]
    action: str = ""

    def apply(self, w: Workload) -> Workload:
        return w.but(**self.changes)


def options(w: Workload) -> list[list[Lever]]:
    """The independent choices that are open to `w`; of each at most one is taken."""
    makers = (_checkpointing, _attention, _micro_batch, _trl, _sleep, _parallel, _reference, _sharding, _dtype, _optimizer, _adapters, _completion)
    return [found for maker in makers if (found := list(maker(w)))]


def _checkpointing(w: Workload) -> Iterator[Lever]:
    if not w.checkpointing:
        yield Lever("checkpointing", "gradient checkpointing: each layer is computed again in the backward", 1, {"checkpointing": True},
                    {"grpo": {"gradient_checkpointing": True}})  # fmt: skip


def _attention(w: Workload) -> Iterator[Lever]:
    if w.attention == "eager":
        yield Lever("attention", "attention without written-out scores", 0.5, {"attention": "sdpa"},
                    {"grpo": {"model_init_kwargs": {"attn_implementation": "sdpa"}}})  # fmt: skip


def _micro_batch(w: Workload) -> Iterator[Lever]:
    for times in (2, 4, 8, 16, 32, 64):
        if w.batch % times:
            return
        batch = w.batch // times
        changes = {"batch": batch, "accumulation": w.accumulation * times, "steps_per_generation": w.steps_per_generation * times}
        patch = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": w.accumulation * times, "generation_batch_size": None}
        patch["steps_per_generation"] = w.steps_per_generation * times if w.steps_per_generation != w.accumulation else None
        what = f"micro-batches of {batch}: the same completions an update in {times} times as many passes"
        yield Lever("micro-batch", what, 1 + 0.3 * times.bit_length(), changes, {"grpo": patch})


def _trl(w: Workload) -> Iterator[Lever]:
    if w.era.head != NOW.head:
        yield Lever("trl", "TRL 1.15 or later: no full logits", 3, {"era": NOW, "liger": False, "trl": "1.16"}, {},
                    "pip install -c SKILL/constraints.txt 'trl>=1.16,<1.17'")  # fmt: skip


def _sleep(w: Workload) -> Iterator[Lever]:
    if w.vllm == "colocate" and not w.sleep and w.era.sleeps:
        yield Lever("sleep", "vLLM gives its memory back while the trainer works", 2, {"sleep": True}, {"grpo": {"vllm_enable_sleep_mode": True}})


def _parallel(w: Workload) -> Iterator[Lever]:
    """One engine over several GPUs of a machine (in server mode: of the server's), each with its part of vLLM's weights and cache."""
    if w.vllm == "none":
        return
    own = w.count if w.vllm == "colocate" else w.server_gpus or A_MACHINE
    for tp in (2, 4, 8):
        if tp > w.tensor_parallel and own % tp == 0 and w.shape.heads % tp == 0:
            what = f"one vLLM engine over {tp} GPUs, each with 1/{tp} of its weights"
            yield Lever("tensor-parallel", what, 1.5 + 0.3 * tp.bit_length(), {"tensor_parallel": tp}, {"grpo": {"vllm_tensor_parallel_size": tp}})


def _reference(w: Workload) -> Iterator[Lever]:
    if w.beta > 0 and w.full:
        yield Lever("reference", "no KL term, so no second copy of the model", 4, {"beta": 0.0}, {"grpo": {"beta": 0.0}})


def _sharding(w: Workload) -> Iterator[Lever]:
    if w.world > 1 and w.engine in ("none", "ddp") and w.quantization == "none":
        yield Lever("sharding", f"FSDP2 spreads weights, gradients and optimizer over the {w.world} GPUs", 2.5, {"sharding": "fsdp2"},
                    {"hardware": {"sharding": "fsdp2"}}, launch_command(w.but(sharding="fsdp2")))  # fmt: skip


def _dtype(w: Workload) -> Iterator[Lever]:
    if w.dtype != "float32" or w.engine in ("fsdp2", "zero2", "zero3") and w.full:
        return
    if w.lora_rank or w.learning_rate >= BF16_SAFE_RATE:
        why = (
            "a frozen base in bfloat16 under float32 adapters" + _drift(w)
            if w.lora_rank
            else f"bfloat16 weights, which a rate of {w.learning_rate:g} survives"
        )
        yield Lever("dtype", why, 3, {"dtype": "bfloat16"}, {"model": {"dtype": "bfloat16"}})


def _drift(w: Workload) -> str:
    return "; each sync with vLLM rounds the base a little" if w.vllm != "none" else ""


def _optimizer(w: Workload) -> Iterator[Lever]:
    if w.full and w.optimizer == "adamw" and w.engine in ("none", "ddp"):
        yield Lever("optimizer", "8-bit AdamW (embeddings stay in float32); needs bitsandbytes", 5, {"optimizer": "adamw_8bit"},
                    {"grpo": {"optim": "adamw_8bit"}})  # fmt: skip


def _adapters(w: Workload) -> Iterator[Lever]:
    rate = {"learning_rate": LORA_RATE} if w.learning_rate < LORA_RATE else {}
    lora = {"r": 16, "alpha": 32, "target_modules": "all-linear"}
    if w.full:
        common = {"lora_rank": 16, "targets": None, "optimizer": "adamw", **rate}
        grpo = {**rate, **({"optim": None} if w.optimizer != "adamw" else {})}
        yield Lever("lora", "LoRA of rank 16 on all linear layers, base in float32", 10, common, {"model": {"lora": lora}, "grpo": grpo})
        both = {**common, "dtype": "bfloat16"}
        patch = {"model": {"dtype": "bfloat16", "lora": lora}, "grpo": grpo}
        yield Lever("lora", "LoRA of rank 16 on all linear layers, base in bfloat16" + _drift(w), 12, both, patch)
    if w.quantization == "none" and w.engine in ("none", "ddp"):
        changes = {"quantization": "nf4-double", "dtype": "bfloat16", "lora_rank": w.lora_rank or 16, "optimizer": "adamw", **rate}
        model = {"dtype": "bfloat16", "lora": {**(lora if w.full else {}), "quantize": "nf4"}}
        grpo = {**rate, **({"optim": None} if w.optimizer != "adamw" else {})}
        yield Lever("qlora", "QLoRA: the frozen base in 4 bits; needs bitsandbytes", 16, changes, {"model": model, "grpo": grpo})


def _completion(w: Workload) -> Iterator[Lever]:
    length = w.completion
    for step in range(1, 6):
        length //= 2
        if length < SHORTEST:
            return
        yield Lever(
            "completion", f"completions of at most {length} tokens", 20 * step, {"completion": length}, {"grpo": {"max_completion_length": length}}
        )


def launch_command(w: Workload) -> str:
    """How training with this sharding is started."""
    count = f"--num_processes {w.world}" + (f" --num_machines {w.nodes}" if w.nodes > 1 else "")
    if w.engine == "fsdp2":
        wrap = "--use_fsdp --fsdp_version 2 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP --mixed_precision bf16"
        return f"accelerate launch {count} {wrap} train.py config.yaml"
    if w.engine in ("zero2", "zero3"):
        return f"accelerate launch {count} --use_deepspeed --zero_stage {w.engine[-1]} --mixed_precision bf16 train.py config.yaml"
    return f"accelerate launch {count} train.py config.yaml" if w.world > 1 else "python train.py config.yaml"


@dataclass(frozen=True)
class Fit:
    """The cheapest set of changes found. `steps` are (lever, peak in GiB with it and those before, what it saves there)."""

    plan: Plan
    steps: tuple[tuple[Lever, float, float], ...]
    patch: dict[str, dict[str, Any]]


def cheapest_fit(w: Workload) -> Fit | None:
    """The set of levers of least cost with which the run FITS, vLLM's share and context set to match; None if there is none."""
    choices = options(w)
    if not any(_fits(w, _taken(chosen)) for chosen in _strongest(choices)):
        return None
    alone: dict[tuple[int, ...], bool] = {}
    for chosen in sorted(itertools.product(*[[None, *found] for found in choices]), key=_cost):
        levers = _taken(chosen)
        if _conflict(levers) or _too_large_alone(w, levers, alone):
            continue
        plan = _settled(w, levers)
        if plan is not None and plan.fits:
            return _explained(w, levers, plan)
    return None


def _too_large_alone(w: Workload, levers: list[Lever], seen: dict[tuple[int, ...], bool]) -> bool:
    """Whether the trainer does not fit even with nothing of vLLM beside it, whatever is done to vLLM; `seen` remembers it by the other levers."""
    trainers = [lever for lever in levers if lever.name not in ("sleep", "tensor-parallel")]
    key = tuple(id(lever) for lever in trainers)
    if key not in seen:
        for lever in trainers:
            w = lever.apply(w)
        seen[key] = not trainer_fits(w)
    return seen[key]


def _strongest(choices: list[list[Lever]]) -> Iterator[tuple[Lever | None, ...]]:
    """The sets that save most, one for each way of holding the weights (the trainer's and vLLM's): if none of them fits, nothing does."""
    kinds = [found for found in choices if found[0].name in ("dtype", "lora", "qlora", "sharding", "tensor-parallel")]
    others = [found[-1] for found in choices if found not in kinds]
    for chosen in itertools.product(*[[None, *found] for found in kinds]):
        names = {lever.name for lever in chosen if lever}
        kept = [lever for lever in others if not (names & {"lora", "qlora"} and lever.name in ("optimizer", "reference"))]
        yield (*chosen, *kept)


def _taken(chosen: tuple[Lever | None, ...]) -> list[Lever]:
    return [lever for lever in chosen if lever is not None]


def _fits(w: Workload, levers: list[Lever]) -> Plan | None:
    plan = None if _conflict(levers) else _settled(w, levers)
    return plan if plan is not None and plan.fits else None


def _cost(levers: tuple[Lever | None, ...]) -> float:
    return sum(lever.cost for lever in levers if lever is not None)


def _conflict(levers: list[Lever]) -> bool:
    names = {lever.name for lever in levers}
    adapters = names & {"lora", "qlora"}
    return bool(adapters and names & {"dtype", "optimizer", "reference"}) or ("qlora" in names and "sharding" in names)


def _settled(w: Workload, levers: list[Lever]) -> Plan | None:
    for lever in levers:
        w = lever.apply(w)
    own = make_plan(w)
    if own.fits:
        return own
    ready = tuned(w)
    return make_plan(ready) if ready is not None else None


def _explained(w: Workload, levers: list[Lever], plan: Plan) -> Fit:
    steps, before, now = [], make_plan(w), w
    patch: dict[str, dict[str, Any]] = {}
    peak = before.deciding.peak / GIB
    final = plan.workload
    for lever in levers:
        now = lever.apply(now)
        after = make_plan(now).deciding.peak / GIB
        steps.append((lever, after, peak - after))
        peak = after
        merge(patch, lever.patch)
    if final != now:
        lever = _vllm_lever(now, final)
        after = plan.deciding.peak / GIB
        steps.append((lever, after, peak - after))
        merge(patch, lever.patch)
    return Fit(plan, tuple(steps), patch)


def _vllm_lever(now: Workload, final: Workload) -> Lever:
    grpo = {"vllm_max_model_length": final.context}
    what = f"vLLM's context at prompt + completion, {final.context} tokens"
    if final.vllm == "colocate" and final.utilization != now.utilization:
        grpo["vllm_gpu_memory_utilization"] = final.utilization
        what += f", and a share of {final.utilization:g}"
    return Lever("vllm", what, 0, {"context": final.context, "utilization": final.utilization}, {"grpo": grpo})
