"""Searches over the plan: the largest that fits, all GPUs side by side, and how many GPUs would do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grpo_rlvr.memory.catalog import bundled_names, bundled_shape
from grpo_rlvr.memory.cheapest import Fit, cheapest_fit
from grpo_rlvr.memory.hardware import gpus
from grpo_rlvr.memory.levers import launch_command, prompt_lever
from grpo_rlvr.memory.patches import merge
from grpo_rlvr.memory.plan import Plan, make_plan, trainer_fits, tuned
from grpo_rlvr.memory.workload import Workload

LONGEST, MOST = 1_048_576, 4096
STEP = 64  # tokens
MAXIMA = ("completion", "generations", "batch", "model")
CLUSTERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
A_NODE = 8


@dataclass(frozen=True)
class Largest:
    """The largest value of `what` that fits, 0 or "" if none does; `plan` is the plan with it, `limited` what stopped it."""

    what: str
    value: int | str
    plan: Plan | None
    limited: str
    patch: dict


def fitting(w: Workload) -> Plan | None:
    """The plan of `w` if it FITS, with vLLM's context and share set to match where its own are not right."""
    own = make_plan(w)
    if own.fits:
        return own
    ready = tuned(w)
    found = make_plan(ready) if ready is not None else None
    return found if found is not None and found.fits else None


def largest(w: Workload, what: str) -> Largest:
    """The largest `completion` (tokens), `generations` (a group), `batch` (a micro-batch) or `model` (bundled) that fits."""
    found = {"completion": _completion, "generations": _generations, "batch": _batch, "model": _model}[what](w)
    stated = prompt_lever(w, found.patch)
    if stated is not None:
        merge(found.patch, stated.patch)
    return found


def _last_true(test: Callable[[int], bool], most: int) -> int:
    """The largest n in 1..most for which `test` holds, which it does up to some n; 0 if for none."""
    if not test(1):
        return 0
    low, high = 1, 2
    while high <= most and test(high):
        low, high = high, high * 2
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if test(middle) else (low, middle)
    return low


def _completion(w: Workload) -> Largest:
    context = w.shape.max_context
    most = (min(LONGEST, context - w.prompt) if context else LONGEST) // STEP
    # vLLM's context must follow the length, so it is always set anew.
    found = _last_true(lambda n: _long(w, n * STEP) is not None, max(1, most)) * STEP
    plan = _long(w, found) if found else None
    limited = "the model's own context" if found and found == most * STEP else _limit(plan, _long_any(w, found + STEP))
    patch = {"max_completion_length": found} | _vllm_patch(plan)
    return Largest("completion", found, plan, limited, {"grpo": patch} if found else {})


def _long(w: Workload, length: int) -> Plan | None:
    return fitting(w.but(completion=length, context=None if w.context is None else -(-(w.prompt + length) // 16) * 16))


def _long_any(w: Workload, length: int) -> Plan:
    return make_plan(w.but(completion=length, context=-(-(w.prompt + length) // 16) * 16))


def _generations(w: Workload) -> Largest:
    """Only groups that TRL takes: the generation batch holds whole groups in whole passes of all GPUs."""
    each = w.batch * w.world
    prompts = max(1, w.generation_batch * w.world // w.generations)
    unit = each // math.gcd(each, prompts)

    def at(n: int) -> Workload:
        steps = -(-n * prompts // each)
        return w.but(generations=n, steps_per_generation=steps, accumulation=max(w.accumulation, steps))

    found = unit * _last_true(lambda k: fitting(at(k * unit)) is not None, max(1, MOST // unit))
    found = found or next((n for n in range(unit - 1, 1, -1) if each % n == 0 and fitting(at(n)) is not None), 0)
    plan = fitting(at(found)) if found else None
    limited = (
        "nothing: more completions are more passes, not more memory" if found + unit > MOST else _limit(plan, make_plan(at(max(unit, found + unit))))
    )
    return Largest("generations", found, plan, limited, {"grpo": {"num_generations": found} | _passes(plan) | _vllm_patch(plan)} if found else {})


def _batch(w: Workload) -> Largest:
    """Only micro-batches that TRL takes: a whole number of groups in a generation, with more passes where the batch is less than that."""
    unit = w.generations // math.gcd(w.generations, w.world * w.steps_per_generation)

    def at(n: int) -> Workload:
        times = -(-unit // n)
        return w.but(batch=n, accumulation=w.accumulation * times, steps_per_generation=w.steps_per_generation * times)

    found = unit * _last_true(lambda k: fitting(at(k * unit)) is not None, max(1, MOST // unit))
    found = found or next((n for n in range(unit - 1, 0, -1) if unit % n == 0 and fitting(at(n)) is not None), 0)
    plan = fitting(at(found)) if found else None
    patch = {"per_device_train_batch_size": found} | _passes(plan) | _vllm_patch(plan)
    limited = "nothing: it is the most that is looked at" if found + unit > MOST else _limit(plan, make_plan(at(max(unit, found + unit))))
    return Largest("batch", found, plan, limited, {"grpo": patch} if found else {})


def _passes(plan: Plan | None) -> dict:
    """How many micro-batches an update and a generation have; a generation batch that is written down would say otherwise."""
    if plan is None:
        return {}
    w = plan.workload
    steps = w.steps_per_generation if w.steps_per_generation != w.accumulation else None
    return {"gradient_accumulation_steps": w.accumulation, "steps_per_generation": steps, "generation_batch_size": None}


def _model(w: Workload) -> Largest:
    shapes = sorted((bundled_shape(name) for name in bundled_names()), key=lambda s: -s.parameters)
    for shape in shapes:
        plan = fitting(w.but(shape=shape))
        if plan is not None:
            larger = [s for s in shapes if s.parameters > shape.parameters]
            limited = _limit(plan, make_plan(w.but(shape=larger[-1]))) if larger else "nothing: it is the largest known"
            patch = {"model": {"name_or_path": shape.name}} | ({"grpo": found} if (found := _vllm_patch(plan)) else {})
            return Largest("model", shape.name, plan, limited, patch)
    return Largest("model", "", None, "even the smallest known model does not fit", {})


def _vllm_patch(plan: Plan | None) -> dict:
    if plan is None or plan.workload.vllm == "none":
        return {}
    w = plan.workload
    out = {} if w.context is None else {"vllm_max_model_length": w.context}
    return out | ({"vllm_gpu_memory_utilization": w.utilization} if w.vllm == "colocate" else {})


def _limit(plan: Plan | None, beyond: Plan) -> str:
    if beyond.blockers and plan is None:
        return beyond.blockers[0].message
    term, _ = beyond.decisive_terms(1)[0]
    return f"{term} in the {beyond.deciding.name} phase"


def compare_gpus(w: Workload) -> list[tuple[Plan, Plan | None, Fit | None]]:
    """For every known GPU: the plan as it is, the one with vLLM's settings matched if that fits, and the cheapest fit if neither does."""
    out = []
    for gpu in gpus().values():
        at = w.but(gpu=gpu)
        plan = make_plan(at)
        ready = None if plan.fits else fitting(at)
        out.append((plan, ready, None if plan.fits or ready is not None else cheapest_fit(at)))
    return out


@dataclass(frozen=True)
class Cluster:
    """GPUs that would do: `train` of them train with `sharding`, `server` generate (0: colocated)."""

    plan: Plan
    train: int
    nodes: int
    server: int
    command: str

    @property
    def gpus(self) -> int:
        return self.train + self.server


def with_adapters(w: Workload) -> Workload:
    """`w` with LoRA on a bfloat16 base instead of all weights."""
    return w.but(lora_rank=16, targets=None, dtype="bfloat16", optimizer="adamw")


def smallest_cluster(w: Workload, most: int = CLUSTERS[-1]) -> Cluster | None:
    """The fewest GPUs of this kind on which the run fits as it is, with FSDP2 (or DDP for a quantised base) and vLLM colocated or apart."""
    found: list[Cluster] = []
    for total in (n for n in CLUSTERS if n <= most):
        # The same completions an update, divided over more GPUs, in micro-batches that stay.
        for server in (0,) if w.vllm == "none" or total == 1 else (0, max(1, total // 4), total // 2):
            cluster = _cluster(w, total - server, server)
            if cluster is not None:
                found.append(cluster)
        if found:
            return min(found, key=lambda c: (c.gpus, c.server))
    return None


def _cluster(w: Workload, train: int, server: int) -> Cluster | None:
    nodes = max(1, -(-train // A_NODE))
    if train % nodes:
        return None
    kinds = ["ddp"] if w.quantization != "none" else ["fsdp2", "zero3"]
    for at in (a for kind in kinds for a in _spread(w, train, nodes, server, kind)):
        plan = fitting(at)
        if plan is not None:
            return Cluster(plan, train, nodes, server, launch_command(at, server))
    return None


def _spread(w: Workload, train: int, nodes: int, server: int, kind: str) -> Iterator[Workload]:
    """`w` on more GPUs: as many completions an update, in micro-batches as large as possible, with each tensor parallelism."""
    mode = "none" if w.vllm == "none" else "server" if server else "colocate"
    each = max(1, w.batch * w.accumulation * w.world // train)
    batch = min(w.batch, each)
    while batch:
        steps = max(1, each // batch)
        generation = max(1, steps * w.steps_per_generation // w.accumulation)
        at = w.but(
            count=train // nodes, nodes=nodes, sharding=kind if train > 1 else w.sharding, vllm=mode, server_gpus=server, batch=batch,
            accumulation=steps, steps_per_generation=generation, sleep=w.sleep or mode == "colocate",
        )  # fmt: skip
        for tp in (1, 2, 4, 8, 16) if trainer_fits(at) else ():
            if not ((w.vllm == "none" and tp > 1) or (server or train) % tp or w.shape.heads % tp):
                yield at.but(tensor_parallel=tp)
        batch //= 2
