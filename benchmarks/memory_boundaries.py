"""Published runs of other trainers that fitted or ran out of memory, beside the plan: what their engines move to the host or share is taken
out of it.

Their reports leave sizes open (verl packs its sequences and states only the longest; vendors state no batch), so each is held to what must be
true whatever these were. A run that fitted must fit with the fewest tokens it can have had; one that ran out must not fit with the most. For
verl's micro-batches the plan's own limit is shown too: the mean length up to which the stated micro-batch fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.memory.catalog import bundled_shape
from grpo_rlvr.memory.estimate import GIB, HIGH, LOW, Phase, estimate
from grpo_rlvr.memory.hardware import Gpu, find_gpu
from grpo_rlvr.memory.workload import Workload

KINDS = ("fit_boundary", "fits", "oom", "train_peak")
SHORTEST = 64  # tokens of prompt and completion together, the fewest that a row of a chat template has
GPUS = {"H100 80GB": "h100", "H800 80GB": "h100", "H20 96GB": "h20", "80GB": "a100-80gb"}
# Those that cannot be held to anything, and why.
REASONS = {
    "p175": "the vendor's own sum for another trainer, not a run",
    "p190": "a hybrid architecture (LFM2) whose layers are not known here",
    "p195": "supervised fine-tuning of a vision model; neither tokens nor image sizes are stated",
    "p239": "out of memory with neither batch nor lengths stated, so there is no most that it can have had",
}
NO_REASON = "neither described here nor explained"


class Verl(Workload):
    """FSDP with weights and optimizer on the host while vLLM is awake, packed sequences, logits in bf16."""

    head = "logits_bf16"

    @property
    def max_sequences(self) -> int:
        return 256  # of its own, whatever the micro-batch


@dataclass(frozen=True)
class Held:
    """One side of a published boundary: `verdict` with the fewest or the most tokens (`tokens` a sequence, `sequences` at once)."""

    point: str
    run: str
    seen: str
    sequences: int
    tokens: int
    verdict: str
    own_limit: int | None = None

    @property
    def right(self) -> bool:
        return (self.verdict != "NO") == (self.seen == "fits")


def verdict_of(phases: list[Phase], gpu: Gpu) -> str:
    """As the plan has it: the band around what the trainer takes, and what vLLM takes as it is."""
    low, high = (max(p.exact + (p.peak - p.exact) * factor for p in phases) / GIB for factor in (LOW, HIGH))
    return "NO" if low > gpu.plan_gib else "FITS" if high <= gpu.plan_gib else "TIGHT"


def offloaded(w: Workload) -> list[Phase]:
    """The phases with the trainer's weights, adapters and optimizer on the host wherever vLLM is awake."""
    phases = estimate(w).phases
    gone = ("weights", "adapters", "reference", "optimizer")
    return [*(Phase(p.name, {k: v for k, v in p.terms.items() if k not in gone}) for p in phases[:3]), *phases[3:]]


def optimizer_on_host(w: Workload) -> list[Phase]:
    return [Phase(p.name, {k: v for k, v in p.terms.items() if k != "optimizer"}) for p in estimate(w).phases]


def shared_weights(w: Workload) -> list[Phase]:
    """One copy of the weights for the trainer and vLLM, and layers' inputs on the host: what Unsloth does. The cache of the sequence is added."""
    cache = w.shape.kv_bytes(w.length)
    return [Phase(p.name, {k: v for k, v in {**p.terms, "kv_cache": cache}.items() if k != "checkpoints"}) for p in estimate(w).phases[3:]]


def held(points: list[dict[str, Any]]) -> list[Held]:
    """Every side of every boundary among `points` that can be held to anything."""
    return [side for point in points if point["kind"] in KINDS for side in _sides(point)]


def _sides(p: dict[str, Any]) -> Iterator[Held]:
    if p.get("task", "").startswith("GRPO colocate (verl"):
        yield from _verl(p)
    elif p.get("id") == "p237":
        w = Workload(
            bundled_shape(p["model"]), find_gpu("a100-80gb"), count=8, nodes=4, sharding="zero3", dtype="bfloat16", batch=1, vllm="colocate",
            utilization=p["vllm_gpu_memory_utilization"], tensor_parallel=p["vllm_tp"], sleep=True, prompt=0, completion=SHORTEST, context=SHORTEST,
        )  # fmt: skip
        yield Held(p["id"], _run(p), "fits", 1, SHORTEST, verdict_of(optimizer_on_host(w), w.gpu))
    elif "Unsloth" in p.get("task", "") and p["kind"] != "train_peak":
        yield _unsloth(p)


def _verl(p: dict[str, Any]) -> Iterator[Held]:
    longest = p["prompt"] + p["completion"]
    fitted = p.get("micro_batch_per_gpu", 1)
    limit = _own_limit(lambda tokens: _verl_verdict(p, fitted, tokens), longest) if "micro_batch_per_gpu" in p else None
    yield Held(p["id"], _run(p), "fits", fitted, SHORTEST, _verl_verdict(p, fitted, SHORTEST), limit)
    if "min_oom_micro_batch" in p:
        failed = p["min_oom_micro_batch"]
        yield Held(p["id"], _run(p), "out of memory", failed, longest, _verl_verdict(p, failed, longest), limit)


def _verl_verdict(p: dict[str, Any], sequences: int, tokens: int) -> str:
    count, parallel = min(p["n_gpus"], 8), p.get("ulysses_sp", 1)  # which splits each sequence over so many GPUs
    w = Verl(
        bundled_shape(p["model"]), find_gpu(GPUS[p["gpu"]]), count=count, nodes=p["n_gpus"] // count, sharding="fsdp2", attention="flash",
        lora_rank=32 if "lora" in p["method"] else 0, batch=sequences, prompt=0, completion=max(1, tokens // parallel), vllm="colocate", sleep=True,
        utilization=p["vllm_gpu_memory_utilization"], tensor_parallel=p["vllm_tp"], context=p["prompt"] + p["completion"],
    )  # fmt: skip
    return verdict_of(offloaded(w), w.gpu)


def _own_limit(verdict: Callable[[int], str], longest: int) -> int:
    """The mean length, up to `longest`, beyond which the plan no longer says FITS; 0 if it never does."""
    low, high = 0, longest + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if verdict(middle) == "FITS" else (low, middle)
    return low


def _unsloth(p: dict[str, Any]) -> Held:
    """The vendor states a context, or only a GPU: one sequence of it, without the completions of its group beside it."""
    tokens = p.get("max_context", SHORTEST)
    gpu = find_gpu(GPUS[p["gpu"]]) if p.get("gpu") else _card(p["fits_vram_gb"])
    w = Workload(
        bundled_shape(p["model"]), gpu, dtype="bfloat16", lora_rank=32, quantization="fp8" if "fp8" in p["method"] else "nf4", batch=1, prompt=0,
        completion=tokens, attention="flash", optimizer="adamw_8bit", generations=2,
    )  # fmt: skip
    return Held(p["id"], _run(p), "fits", 1, tokens, verdict_of(shared_weights(w), gpu))


def _card(gigabytes: float) -> Gpu:
    usable = gigabytes * 1e9 / GIB
    return Gpu("card", f"{gigabytes:g} GB", usable, usable, 800.0, 100.0)


def _run(p: dict[str, Any]) -> str:
    where = f"{p['n_gpus']} x {p['gpu']}" if p.get("gpu") else f"{p['fits_vram_gb']:g} GB"
    return f"{p['model']}, {p['method']}, {where}"


def unscored(points: list[dict[str, Any]], scored: set[str]) -> dict[str, str]:
    """The reason for every point of these kinds that is not in `scored`."""
    left = [p.get("id", "?") for p in points if p["kind"] in KINDS and p.get("id") not in scored]
    return {point: REASONS.get(point, NO_REASON) for point in left}
