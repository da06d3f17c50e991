"""One decoder layer as the operations of `replay`: what a forward, a backward and a kept layer take for a micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from grpo_rlvr.memory import operations as op
from grpo_rlvr.memory.replay import Node, Tape, Tensor, Weight, backward

ATTENTION = ("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj")


@dataclass(frozen=True)
class Block:
    """Sizes of one layer. `expert_*` are 0 in a dense layer; `intermediate` is 0 where there is no dense part."""

    hidden: int
    q_size: int
    kv_size: int
    heads: int
    intermediate: int
    qk_norm: bool = False
    gated_attention: bool = False
    sandwich_norms: bool = False
    experts: int = 0
    active_experts: int = 0
    expert_intermediate: int = 0
    v_size: int = 0  # of the attention's output, where it differs from q_size (MLA)
    fused_qkv: bool = False  # one matrix for query, key and value
    fused_gate_up: bool = False


@dataclass(frozen=True)
class Mode:
    """How the layer is trained: widths in bytes, which linear layers have adapters of which rank."""

    weight_width: int = 4
    autocast: bool = True
    trained: bool = True
    four_bit: bool = False
    rank: int = 0
    adapter_width: int = 4
    targets: tuple[str, ...] = ()
    attention: str = "sdpa"
    masked: bool = True
    adapted_experts: bool = False
    caching: bool = False  # keys and values go into a cache, as in generation


class LayerBytes(NamedTuple):
    """Bytes beyond the layer's own input: `forward` at the peak without gradients, `kept` for a later backward, `train` at the peak of a
    forward with gradients and its backward."""

    forward: float
    kept: float
    train: float


@lru_cache(maxsize=4096)
def layer_bytes(block: Block, mode: Mode, batch: int, length: int) -> LayerBytes:
    """What one layer takes for `batch` sequences of `length` tokens."""
    tape = Tape(mode.autocast)
    weights = _Weights(block, mode)
    stream = mode.weight_width
    tokens = batch * length

    tape.grad = False
    x = tape.new(tokens * block.hidden, stream)
    base = tape.now
    out = _layer(tape, x, weights, block, mode, batch, length)
    tape.casts.clear()
    tape.cached.clear()
    forward = tape.peak - base
    del out

    tape.grad, tape.peak = True, tape.now
    x.node = tape.node((Node(0, (), None),), lambda g: (g,))
    # Under checkpointing the output's gradient is there when the layer is run again.
    grads = [tape.new(x.elements, stream)]
    out = _layer(tape, x, weights, block, mode, batch, length)
    kept = tape.now - base - grads[0].store.size - out.store.size
    tape.casts.clear()
    tape.cached.clear()
    root = out.node
    del out, x
    backward(root, grads)
    return LayerBytes(forward, kept, tape.peak - base)


def delta_net_bytes(hidden: int, mlp: int, heads: int, key: int, value: int, tokens: int) -> LayerBytes:
    """A linear-attention (gated delta net) layer as transformers' reference implementation runs it, which is what runs where
    flash-linear-attention is not installed: float32 copies of queries, keys and values in chunks of 64 tokens.

    Fitted on 24 traces (full and LoRA, bf16 and float32) with a largest error of 9%; with the fused kernels it is less.
    """
    core = 4 * tokens * heads * (64 + 12.5 * key + 11 * value)
    train = core + tokens * (7 * hidden + 20 * mlp)
    return LayerBytes(0.6 * train, 0.9 * train, train)


class _Weights:
    """The layer's matrices and their adapters by Hugging Face's names."""

    def __init__(self, block: Block, mode: Mode) -> None:
        h, q, kv, i = block.hidden, block.q_size, block.kv_size, block.intermediate
        gate = 2 if block.gated_attention else 1
        sizes = {"q_proj": (q * gate, h), "k_proj": (kv, h), "v_proj": (kv, h)} if not block.fused_qkv else {"qkv_proj": (q + 2 * kv, h)}
        sizes["o_proj"] = (h, block.v_size or q)
        if i:
            sizes |= {"gate_proj": (i, h), "up_proj": (i, h)} if not block.fused_gate_up else {"gate_up_proj": (2 * i, h)}
            sizes["down_proj"] = (h, i)
        self.linear = {n: Weight(*s, mode.weight_width, mode.trained, mode.four_bit) for n, s in sizes.items()}
        self.adapters = {
            n: (Weight(mode.rank, c, mode.adapter_width, True), Weight(r, mode.rank, mode.adapter_width, True))
            for n, (r, c) in sizes.items()
            if mode.rank and n in mode.targets and not (mode.adapted_experts and block.experts and n not in ATTENTION)
        }
        self.adapted_experts = mode.adapted_experts and bool(mode.rank)
        self.norm = Weight(1, h, mode.weight_width, mode.trained)
        self.head_norm = Weight(1, 1, mode.weight_width, mode.trained)
        self.router = Weight(block.experts, h, mode.weight_width, mode.trained)
        self.gate_up = Weight(2 * block.expert_intermediate, h, mode.weight_width, mode.trained)
        self.down = Weight(h, block.expert_intermediate, mode.weight_width, mode.trained)

    def __call__(self, tape: Tape, name: str, x: Tensor) -> Tensor:
        if name in self.adapters:
            return op.lora(tape, x, self.linear[name], *self.adapters[name])
        return op.linear(tape, x, self.linear[name])


def _layer(tape: Tape, x: Tensor, w: _Weights, block: Block, mode: Mode, batch: int, length: int) -> Tensor:
    h = op.norm(tape, x, w.norm)
    h = _attention(tape, h, w, block, mode, batch, length)
    if block.sandwich_norms:
        h = op.norm(tape, h, w.norm)
    x = op.add(tape, x, h)
    h = op.norm(tape, x, w.norm)
    h = _experts(tape, h, w, block) if block.experts else _mlp(tape, h, w, block)
    if block.sandwich_norms:
        h = op.norm(tape, h, w.norm)
    return op.add(tape, x, h)


def _attention(tape: Tape, h: Tensor, w: _Weights, block: Block, mode: Mode, batch: int, length: int) -> Tensor:
    stream = mode.weight_width
    if block.fused_qkv:
        q, k, v = op.parts(tape, w(tape, "qkv_proj", h), block.q_size, block.kv_size, block.kv_size)
    else:
        q, k, v = w(tape, "q_proj", h), w(tape, "k_proj", h), w(tape, "v_proj", h)
    del h
    gate = None
    if block.gated_attention:  # q_proj makes the query and a gate for the output
        gate = Tensor(q.elements / 2, q.width, q.store, q.node)
        q = Tensor(q.elements / 2, q.width, q.store, q.node)
    if block.qk_norm:
        q, k = op.norm(tape, q, w.head_norm), op.norm(tape, k, w.head_norm)
    q, k = op.rotate(tape, q, stream), op.rotate(tape, k, stream)
    if mode.caching:  # copied into the cache, which has the type of the keys
        k = tape.new(k.elements, k.width, k.node)
        v = tape.new(v.elements, k.width, v.node)
        tape.cached += [k, v]
    if mode.attention == "eager":
        k, v = op.repeat(tape, k, q.elements), op.repeat(tape, v, q.elements)
        out = op.attend_eager(tape, q, k, v, batch * block.heads * length * length, mode.masked)
    else:
        masked = mode.masked and mode.attention == "sdpa"
        if masked:
            k, v = op.repeat(tape, k, q.elements), op.repeat(tape, v, q.elements)
        mask = batch * length * length * (2 if mode.autocast else q.width) if masked else 0
        out = op.attend(tape, q, k, v, mask, batch * length * (block.v_size or block.q_size))
    del q, k, v
    if gate is not None:
        out = op.multiply(tape, out, op.unary(tape, gate))
        del gate
    return w(tape, "o_proj", out)


def _mlp(tape: Tape, h: Tensor, w: _Weights, block: Block) -> Tensor:
    if block.fused_gate_up:  # the halves are views: the whole stays until both are used
        gate, up = op.halves(tape, w(tape, "gate_up_proj", h))
        del h
        gate = op.unary(tape, gate)
        product = op.multiply(tape, gate, up)
        del gate, up
        return w(tape, "down_proj", product)
    gate = w(tape, "gate_proj", h)
    gate = op.unary(tape, gate)
    up = w(tape, "up_proj", h)
    del h
    product = op.multiply(tape, gate, up)
    del gate, up
    return w(tape, "down_proj", product)


def _experts(tape: Tape, h: Tensor, w: _Weights, block: Block) -> Tensor:
    """As transformers' grouped_mm experts: tokens gathered by expert, one grouped product for all, weighted, put back and summed.

    A shared expert is the dense part beside it. The gathered tokens and the last product are local variables there, and stay to its end.
    """
    router = op.linear(tape, h, w.router)
    shared = _mlp(tape, h, w, block) if block.intermediate else None
    width = h.width
    chosen = op.reorder(tape, h, h.elements * block.active_experts)
    scores = tape.new(chosen.elements / block.hidden, 4, router.node and tape.node((router.node,), lambda g: (None,)))
    del h, router
    both = op.grouped(tape, chosen, w.gate_up, block.experts, w.adapted_experts)
    both = op.reorder(tape, both, both.elements)
    gate, up = op.halves(tape, both)
    del both
    product = op.multiply(tape, op.unary(tape, gate), up)
    del gate, up
    out = op.grouped(tape, product, w.down, block.experts, w.adapted_experts)
    del product
    out = op.reorder(tape, out, out.elements)
    weighted = op.weigh(tape, out, scores)
    weighted = op.reorder(tape, weighted, weighted.elements)
    summed = op.cast(tape, op.total(tape, weighted, block.active_experts), width)
    del weighted, chosen, out
    return op.add(tape, shared, summed) if shared is not None else summed
