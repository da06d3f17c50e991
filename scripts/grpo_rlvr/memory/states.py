"""Weights, gradients and optimizer of one GPU, whole or spread by FSDP2 or ZeRO. All sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.memory.shape import ModelShape
from grpo_rlvr.memory.workload import Workload

# Bytes of optimizer state an element of a trained tensor: (in multiples of its width, fixed). 8-bit ones keep two bytes and two float32
# scales of each 256, and float32 for embeddings, which transformers registers so (trainer.py).
OPTIMIZERS: dict[str, tuple[float, float]] = {
    "adamw": (2, 0), "adamw_8bit": (0, 2 + 8 / 256), "adamw_4bit": (0, 1 + 8 / 128), "lion": (1, 0), "lion_8bit": (0, 1 + 4 / 256),
    "adafactor": (0, 0.02), "sgd": (0, 0), "rmsprop": (1, 0), "adagrad": (1, 0),
}  # fmt: skip
_NAMES = {
    "adamw_torch": "adamw", "adamw_torch_fused": "adamw", "adamw_anyprecision": "adamw", "adamw_apex_fused": "adamw", "adamw_hf": "adamw",
    "stable_adamw": "adamw", "adamw_torch_8bit": "adamw_8bit", "adamw_torch_4bit": "adamw_4bit", "adamw_bnb_8bit": "adamw_8bit",
    "lion_32bit": "lion", "rmsprop_bnb": "rmsprop", "rmsprop_bnb_32bit": "rmsprop",
}  # fmt: skip


def optimizer_kind(name: str) -> str:
    """Our name of a transformers optimizer, with `paged_` in front where its states may move to the host.

    Raises:
        UserError: how much this optimizer keeps is not known here.
    """
    paged = "paged_" if name.startswith("paged_") else ""
    plain = name.removeprefix("paged_")
    plain = _NAMES.get(plain, plain)
    if plain not in OPTIMIZERS:
        known = ", ".join(sorted({*OPTIMIZERS, *_NAMES}))
        raise UserError("memory", Problem("grpo.optim", f"what '{name}' keeps a parameter is not known here", f"plan with one of: {known}"))
    return paged + plain


@dataclass(frozen=True)
class States:
    """Bytes of one GPU. `unsharded` is there while layers compute, `buckets` from the first backward on."""

    weights: float
    adapters: float
    reference: float
    gradients: float
    head_gradient: float
    optimizer: float
    unsharded: float
    buckets: float
    trained: int


def base_bytes(shape: ModelShape, width: float, quantization: str) -> float:
    """The model's weights.

    4-bit blocks hold half a byte and a float32 scale of each 64 (an 8-bit one of each 64 when doubled); embeddings, head, norms and experts,
    which are no linear layers, keep `width`. float8 has one byte and a float32 scale of each 128 x 128, in experts too.
    """
    if quantization == "fp8":
        return (shape.parameters - shape.embedding_parameters) * (1 + 4 / 128**2) + shape.embedding_parameters * width
    packed = {"none": None, "nf4": 0.5 + 4 / 64, "nf4-double": 0.5 + 1 / 64 + 4 / 64 / 256, "int8": 1.0}[quantization]
    if packed is None:
        return shape.parameters * width
    return shape.linear_parameters * packed + (shape.parameters - shape.linear_parameters) * width


def states(w: Workload) -> States:
    """What one GPU holds between and during the steps."""
    s, n, engine = w.shape, w.world, w.engine
    frozen = not w.full
    adapters = s.lora_parameters(w.lora_rank, w.targets) if frozen else 0
    trained = adapters if frozen else s.parameters
    width = 4 if w.dtype == "float32" else 2
    deepspeed, fsdp = engine in ("zero2", "zero3"), engine == "fsdp2"
    stored = 2 if deepspeed else 4 if fsdp and w.full and w.autocast else width
    weights = base_bytes(s, stored, w.quantization) / w.sharded
    reference = s.parameters * (2 if deepspeed else width) / w.sharded if w.beta > 0 and w.full else 0
    grad_width = w.adapter_width if frozen else stored
    if deepspeed:
        # bf16 gradients spread from the reduction on, float32 sums of them for the step
        gradients = trained * (2 + 4) / n
        optimizer = trained * 12 / n
    else:
        gradients = trained * grad_width / w.sharded
        optimizer = _optimizer(w, trained, grad_width) / w.sharded
    return States(
        weights, adapters * w.adapter_width / w.sharded, reference, gradients, s.embedding_parameters * grad_width / w.sharded if w.full else 0,
        optimizer, _unsharded(w), _buckets(w, trained, grad_width), trained,
    )  # fmt: skip


def _optimizer(w: Workload, trained: int, width: float) -> float:
    if w.optimizer.startswith("paged_"):
        return 0  # the driver moves the pages to the host when something else needs the room
    times, fixed = OPTIMIZERS[w.optimizer]
    if w.full and fixed and w.optimizer.endswith("bit"):
        embedding = w.shape.head_parameters
        return (trained - embedding) * fixed + embedding * 8
    return trained * (times * width + fixed)


def _unsharded(w: Workload) -> float:
    """FSDP2 and ZeRO-3 gather the layer that computes and the next one, and keep embedding and head whole through the step.

    Over several GPUs the largest gather's buffer, that of embedding and head, stays in the allocator's pool too.
    """
    if w.engine not in ("fsdp2", "zero3"):
        return 0
    s = w.shape
    layers = 2 * base_bytes_of_layer(w)
    whole = s.embedding_parameters * w.weight_width
    return layers + whole * (2 if w.sharded > 1 else 1)


def base_bytes_of_layer(w: Workload) -> float:
    """One whole layer as it is gathered to compute."""
    packed = 0.5625 if w.four_bit else w.weight_width
    return w.shape.layer_parameters * packed


def _buckets(w: Workload, trained: int, width: float) -> float:
    if w.engine == "ddp":
        return trained * width  # accelerate leaves gradient_as_bucket_view off: the buckets are a second copy
    if w.engine == "zero2":
        return min(trained, 5e8) * 2
    if w.engine in ("fsdp2", "zero3") and w.full:
        return w.shape.layer_parameters * w.weight_width + w.shape.embedding_parameters * w.weight_width
    return 0
