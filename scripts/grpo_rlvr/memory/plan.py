"""The verdict: does the run fit, which phase and terms decide, and what would refuse to start whatever the memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from grpo_rlvr.memory.estimate import GIB, HIGH, Estimate, Phase, estimate
from grpo_rlvr.memory.rollout import Engine, vllm_engine
from grpo_rlvr.memory.workload import Workload

VERDICTS = ("FITS", "TIGHT", "NO")


@dataclass(frozen=True)
class Blocker:
    """A refusal at the start, with both numbers and the way out. `code` is stable."""

    code: str
    message: str
    fix: str


@dataclass(frozen=True)
class Plan:
    """An estimate held against a GPU."""

    estimate: Estimate
    blockers: tuple[Blocker, ...]

    @property
    def workload(self) -> Workload:
        return self.estimate.workload

    @property
    def capacity(self) -> float:
        """Bytes a plan may use of one GPU."""
        return self.workload.gpu.plan_gib * GIB

    @property
    def deciding(self) -> Phase:
        return self.estimate.deciding

    @cached_property
    def verdict(self) -> str:
        """FITS: even the upper end of the band is within the GPU. NO: even the lower end is not, or something refuses to start."""
        if self.blockers or self.deciding.low > self.capacity:
            return "NO"
        return "FITS" if self.deciding.high <= self.capacity else "TIGHT"

    @property
    def fits(self) -> bool:
        return self.verdict == "FITS"

    def decisive_terms(self, most: int = 3) -> list[tuple[str, float]]:
        """The largest terms of the deciding phase, in bytes."""
        return sorted(self.deciding.terms.items(), key=lambda kv: -kv[1])[:most]


def make_plan(w: Workload) -> Plan:
    """Estimate and verdict."""
    found = estimate(w)
    return Plan(found, tuple(_parallel(w)) + tuple(_engine(w, found)))


def _parallel(w: Workload):
    tp = w.tensor_parallel
    if w.vllm == "colocate" and w.world % tp:
        yield Blocker("tensor-parallel", f"vllm_tensor_parallel_size {tp} does not divide the {w.world} training GPUs", "set it to 1 or a divisor")
    if w.vllm != "none" and w.shape.heads % tp:
        message = f"vllm_tensor_parallel_size {tp} does not divide the model's {w.shape.heads} attention heads"
        yield Blocker("tensor-parallel", message, "set it to a power of two that does")
    if w.quantization == "fp8":
        message = "transformers does not train on float8 weights (its quantizer says so, and the trainer refuses); the sizes are what they would take"
        fix = "quantization_config: {quant_method: fp8, dequantize: true} loads them in two bytes; or a bfloat16 checkpoint, or 4 bits"
        yield Blocker("fp8-training", message, fix)
    if w.vllm == "colocate" and w.quantization == "int8":
        yield Blocker("int8-vllm", "TRL refuses 8-bit models with colocated vLLM", "load it in 4 bits, or use_vllm: false")


def _engine(w: Workload, found: Estimate):
    """vLLM's own rules when it starts: its share must be free, and hold the weights and one sequence of the longest context."""
    engine = found.engine
    if engine is None:
        return
    if w.vllm == "server":
        yield from _server(w, engine)
        return
    own = sum(v for k, v in found.phases[0].terms.items() if k not in ("vllm_weights", "vllm_overhead", "kv_cache"))
    free = w.gpu.usable_gib * GIB - own
    if engine.budget > free:
        message = (
            f"vLLM wants {w.utilization:g} x {w.gpu.usable_gib:g} = {engine.budget / GIB:.1f} GiB and the trainer leaves {max(0, free) / GIB:.1f}:"
            " it refuses to start"
        )
        yield Blocker("vllm-start", message, _room_fix(engine, free, w))
    if engine.least > engine.budget:
        what = f"weights {engine.weights / GIB:.1f}, overhead {engine.fixed / GIB:.1f}, one sequence of {engine.context} tokens"
        message = f"vLLM's share of {engine.budget / GIB:.1f} GiB is less than it needs ({what} {engine.one_sequence / GIB:.1f}): it refuses to start"
        if w.context is None:
            fix = f"set vllm_max_model_length: {w.length}; without it the model's whole context is reserved for"
            yield Blocker("vllm-context", message, fix)
        else:
            yield Blocker("vllm-share", message, _room_fix(engine, free, w))


def _room_fix(engine: Engine, free: float, w: Workload) -> str:
    share = engine.least / (w.gpu.usable_gib * GIB)
    if engine.least <= free:
        return f"set vllm_gpu_memory_utilization between {share + 0.005:.2f} and {free / (w.gpu.usable_gib * GIB):.2f}"
    return "no share is right: make the trainer smaller (--fit), or give vLLM GPUs of its own"


def _server(w: Workload, engine: Engine):
    if w.server_gpus and w.server_gpus < w.tensor_parallel:
        yield Blocker("server-gpus", f"server_gpus {w.server_gpus} are fewer than vllm_tensor_parallel_size {w.tensor_parallel}", "raise server_gpus")
    if engine.least > engine.budget:
        message = f"a server GPU needs {engine.least / GIB:.1f} GiB (weights {engine.weights / GIB:.1f}) and vLLM takes {engine.budget / GIB:.1f}"
        yield Blocker("server-size", message, "raise vllm_tensor_parallel_size, or set vllm_max_model_length to prompt + completion")


def trainer_fits(w: Workload) -> bool:
    """Whether what trains fits with nothing of vLLM beside it; if it does not, no setting of vLLM helps."""
    return max((p.peak - p.exact) * HIGH for p in estimate(w).phases[3:]) <= w.gpu.plan_gib * GIB


def tuned(w: Workload, capacity: float | None = None) -> Workload | None:
    """`w` with vLLM's context at prompt + completion and the share that leaves the trainer its room; None if there is no such share.

    The share is what all sequences of a generation need, or what is free beside the trainer in every phase where vLLM is awake.
    """
    context = -(-w.length // 16) * 16
    if w.vllm == "server":
        return w.but(context=context)
    if w.vllm != "colocate":
        return w
    total = w.gpu.usable_gib * GIB
    capacity = w.gpu.plan_gib * GIB if capacity is None else capacity
    without = estimate(w.but(vllm="none", context=context, generations=w.generations))
    fixed = dict(without.phases[0].terms)
    held = sum(fixed.values()) + without.states.optimizer
    full = estimate(w.but(context=context, utilization=1e-9))
    awake = [held * HIGH, *(_own(p) * HIGH for p in full.phases[1:3])]
    if not w.sleep:
        awake += [_own(p) * HIGH for p in full.phases[3:]]
    room = min(capacity - max(awake), total - sum(fixed.values()))
    engine = vllm_engine(w.but(context=context))
    wanted = max(engine.least, engine.weights + engine.fixed + engine.wanted * engine.expected_sequence)
    # In hundredths: up to what is wanted, and down where that is more than there is room for.
    share = min(math.ceil(wanted / total * 100), math.floor(min(room / total, 0.95) * 100)) / 100
    if share * total < engine.least:
        return None
    return w.but(context=context, utilization=share)


def _own(phase: Phase) -> float:
    return sum(v for k, v in phase.terms.items() if k not in ("vllm_weights", "vllm_overhead", "kv_cache"))
