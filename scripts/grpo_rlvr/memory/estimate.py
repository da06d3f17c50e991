"""The closed form: what one training GPU holds in each phase of a GRPO step, term by term."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from grpo_rlvr.memory.head import head_bytes
from grpo_rlvr.memory.layer import LayerBytes
from grpo_rlvr.memory.layer_sizes import layer_sizes
from grpo_rlvr.memory.rollout import ASLEEP_GIB, Engine, autocast_copies, generation_moments, vllm_engine
from grpo_rlvr.memory.states import States, states
from grpo_rlvr.memory.workload import Workload

GIB = 2**30
PHASES = ("start", "rollout", "weight sync", "log-probs", "training step", "optimizer step")
# Reserved over allocated memory: 1.02-1.11 (mean 1.057) when the allocator's rules are replayed on traced steps, 1.04-1.09 measured on a T4.
FRAGMENTATION = 0.06
CUBLAS = 2 * 8.125 * 2**20  # two workspaces; the constant between traced and measured peaks
NCCL_GIB = 0.6  # assumed: 0.3-1 GiB of communicators
# The error of the closed form on published measurements; what vLLM takes is a policy and has none.
LOW, HIGH = 0.93, 1.08

# Terms in the order they are shown.
TERMS = (
    "weights", "adapters", "reference", "gradients", "optimizer", "bf16_copies", "unsharded", "buckets", "checkpoints", "kept_layers",
    "attention_mask", "layer", "head", "pending_head_gradient", "embedding_gradient", "vllm_weights", "vllm_overhead", "kv_cache",
    "generation", "gather", "fragmentation", "context",
)  # fmt: skip
POLICY = ("vllm_weights", "vllm_overhead", "kv_cache")


@dataclass(frozen=True)
class Phase:
    """Terms in bytes; `moment` says when within the phase its peak is."""

    name: str
    terms: dict[str, float]
    moment: str = ""

    @cached_property
    def peak(self) -> float:
        return sum(self.terms.values())

    @property
    def exact(self) -> float:
        """The part that is a policy, not an estimate."""
        return sum(v for k, v in self.terms.items() if k in POLICY)

    @property
    def low(self) -> float:
        return self.exact + (self.peak - self.exact) * LOW

    @property
    def high(self) -> float:
        return self.exact + (self.peak - self.exact) * HIGH


@dataclass(frozen=True)
class Estimate:
    """All phases of one training GPU, and the engine that generates, if any."""

    workload: Workload
    phases: tuple[Phase, ...]
    states: States
    engine: Engine | None

    @cached_property
    def deciding(self) -> Phase:
        return max(self.phases, key=lambda p: p.high)


def estimate(w: Workload) -> Estimate:
    """Every phase. Pure arithmetic; a fraction of a millisecond once a layer's sizes have been replayed."""
    s = states(w)
    engine = vllm_engine(w) if w.vllm != "none" else None
    fixed = {"weights": s.weights, "adapters": s.adapters, "reference": s.reference, "context": w.gpu.context_gib * GIB + CUBLAS}
    if w.world > 1 or w.vllm == "server":
        fixed["context"] += NCCL_GIB * GIB
    held = {**fixed, "optimizer": s.optimizer}
    awake, asleep = _vllm(w, engine)
    between = {**held, "gradients": s.gradients if w.generates_between else 0}
    syncing = between if w.syncs_between else held
    phases = (
        Phase("start", _clean({**fixed, **awake}), "vLLM reserves its share" if awake else "the model is loaded"),
        _rollout(w, between, awake),
        Phase(
            "weight sync",
            _clean({**syncing, **(_waking(awake) if w.sleep else awake), "gather": _gather(w)}),
            "one whole parameter at a time",
        ),
        _log_probs(w, s, between, asleep),
        _training(w, s, held, asleep),
        _fragmented("optimizer step", {**held, "gradients": s.gradients, "buckets": s.buckets, **asleep}, "all gradients and states"),
    )
    return Estimate(w, phases, s, engine)


def _clean(terms: dict[str, float]) -> dict[str, float]:
    return {k: terms[k] for k in TERMS if terms.get(k)}


def _fragmented(name: str, terms: dict[str, float], moment: str) -> Phase:
    share = sum(v for k, v in terms.items() if k not in POLICY and k != "context")
    return Phase(name, _clean({**terms, "fragmentation": FRAGMENTATION * share}), moment)


def _vllm(w: Workload, engine: Engine | None) -> tuple[dict[str, float], dict[str, float]]:
    """vLLM's terms on a training GPU while it generates and while the trainer works."""
    if w.vllm != "colocate" or engine is None:
        return {}, {}
    cache = max(engine.budget - engine.weights - engine.fixed, 0)
    awake = {"vllm_weights": engine.weights, "vllm_overhead": engine.fixed, "kv_cache": cache}
    return awake, ({"vllm_overhead": ASLEEP_GIB * GIB} if w.sleep else awake)


def _waking(awake: dict[str, float]) -> dict[str, float]:
    """With sleep mode the weights wake first, are written, and then the cache wakes."""
    return {k: v for k, v in awake.items() if k != "kv_cache"}


def _gather(w: Workload) -> float:
    """What pushing the weights to vLLM makes: one full parameter; PEFT under ZeRO-3 gathers all of them at once."""
    if w.vllm == "none":
        return 0
    if w.engine == "zero3" and not w.full:
        return w.shape.parameters * w.weight_width
    largest = w.shape.head_parameters * w.weight_width if w.sharded > 1 else w.shape.head_parameters * 2
    return largest + (w.shape.intermediate * w.shape.hidden * w.weight_width if not w.full else 0)


def _rollout(w: Workload, held: dict[str, float], awake: dict[str, float]) -> Phase:
    if w.vllm == "colocate":
        return Phase("rollout", _clean({**held, **awake}), "vLLM at its full share")
    if w.vllm == "server":
        return Phase("rollout", _clean(held), "vLLM generates on its own GPUs")
    what = f"transformers generates {w.generation_batch} completions: "
    moments = [_fragmented("rollout", {**held, **terms}, what + when) for when, terms in generation_moments(w).items()]
    return max(moments, key=lambda p: p.peak)


def _layers(w: Workload) -> tuple[LayerBytes, float]:
    """(the largest layer, the mean kept by a layer without checkpointing)."""
    sizes = layer_sizes(w.shape, w.mode, w.batch, w.length)
    largest = LayerBytes(*(max(size[i] for size, _ in sizes) for i in range(3)))
    return largest, sum(size.kept * count for size, count in sizes) / w.shape.layers


def _head(w: Workload) -> LayerBytes:
    return head_bytes(w.head, w.shape.hidden, w.shape.vocab, w.mode, w.batch * w.length, w.batch * w.completion)


def _stream(w: Workload) -> float:
    """The residual stream of a micro-batch."""
    return w.batch * w.length * w.shape.hidden * w.weight_width


def _mask(w: Workload) -> float:
    return w.batch * w.length**2 if w.attention != "flash" else 0


def _log_probs(w: Workload, s: States, held: dict[str, float], asleep: dict[str, float]) -> Phase:
    layer, _ = _layers(w)
    head = _head(w)
    common = {**held, **asleep, "attention_mask": _mask(w), "bf16_copies": autocast_copies(w), "unsharded": s.unsharded}
    work = {"layer": layer.forward + _stream(w)} if layer.forward > head.forward else {"head": head.forward + _stream(w)}
    return _fragmented("log-probs", {**common, **work}, "a forward without gradients" + (", policy and reference" if s.reference else ""))


def _training(w: Workload, s: States, held: dict[str, float], asleep: dict[str, float]) -> Phase:
    """The moment of a forward and backward at which most is alive."""
    moments = {name: _fragmented("training step", {**held, **asleep, **terms}, name) for name, terms in _moments(w, s).items()}
    return max(moments.values(), key=lambda p: p.peak)


def _moments(w: Workload, s: States) -> dict[str, dict[str, float]]:
    layer, kept = _layers(w)
    head, stream, embedding = _head(w), _stream(w), w.shape.head_parameters * w.weight_width
    common = {"attention_mask": _mask(w), "unsharded": s.unsharded}
    # Gradients of the micro-batches before stay; with one micro-batch an update they come with the backward.
    before = s.gradients if w.accumulation > 1 else 0
    pending = embedding if w.full and w.shape.tied and w.engine in ("none", "ddp") else 0
    head_gradient = min(s.gradients, s.head_gradient if not w.shape.tied else 0) if w.accumulation == 1 else 0
    saved = {"checkpoints": w.shape.layers * stream} if w.checkpointing else {"kept_layers": w.shape.layers * kept}
    last = layer.train if w.checkpointing else max(0.0, layer.train - kept)
    moments = {
        "forward": {**common, **saved, "gradients": before, "bf16_copies": autocast_copies(w), "head": head.forward + stream},
        "loss backward": {**common, **saved, "gradients": before, "buckets": s.buckets, "head": head.train + stream},
        "backward of the last layer": {
            **common, **saved, "gradients": before + head_gradient, "buckets": s.buckets, "layer": last, "pending_head_gradient": pending,
        },
        "backward of the first layer": {
            **common, "gradients": s.gradients, "buckets": s.buckets, "layer": layer.train, "pending_head_gradient": pending,
        },
    }  # fmt: skip
    if w.full and w.engine in ("none", "ddp"):
        # The new gradient joins the one that is there; with a tied head, first a sum of the two is made beside both.
        again = embedding * ((w.accumulation > 1) + w.shape.tied)
        moments["embedding gradient"] = {
            "gradients": s.gradients,
            "buckets": s.buckets,
            "embedding_gradient": again,
            "pending_head_gradient": pending,
        }
    return moments
