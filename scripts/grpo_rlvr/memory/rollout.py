"""What generation takes: vLLM's share and its start-up rule, or the cache of transformers' own generation. Sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_rlvr.memory.layer import layer_bytes
from grpo_rlvr.memory.states import base_bytes
from grpo_rlvr.memory.workload import Workload

GIB = 2**30
# Measured in few start-up logs (0.41 and 0.73 GiB of graphs, 1.27 of non-torch memory; 2.8-2.95 GiB of activations at 8192 batched tokens,
# half of it assumed at TRL's 4096).
GRAPHS_GIB, NON_TORCH_GIB, ACTIVATIONS_GIB = 0.6, 0.6, 1.0
ASLEEP_GIB = 1.2  # graphs and non-torch memory stay
BLOCK = 16  # tokens of a cache page
SERVER_SEQUENCES = 1024  # vLLM's default `max_num_seqs`; TRL passes its own where it starts the engine


@dataclass(frozen=True)
class Engine:
    """vLLM on one GPU. `cache` is what its budget leaves for keys and values; `one_sequence` what a sequence of `context` tokens needs."""

    budget: float
    weights: float
    fixed: float
    context: int
    one_sequence: float
    expected_sequence: float
    wanted: int

    @property
    def cache(self) -> float:
        return max(0.0, self.budget - self.weights - self.fixed)

    @property
    def sequences(self) -> int:
        """Whole sequences of prompt + completion that run at once."""
        if self.expected_sequence <= 0:
            return self.wanted
        return min(self.wanted, int(self.cache // self.expected_sequence))

    @property
    def least(self) -> float:
        """The smallest budget it starts with."""
        return self.weights + self.fixed + self.one_sequence


def vllm_engine(w: Workload) -> Engine:
    """vLLM as TRL starts it (util x total, `max_num_batched_tokens` 4096, bf16 weights whatever the trainer's)."""
    s, tp = w.shape, w.tensor_parallel
    # A 4-bit policy is loaded as bitsandbytes 4-bit; the rest as the checkpoint has it, two bytes.
    stored = "nf4" if w.four_bit and w.vllm == "colocate" else "fp8" if s.quantized == "fp8" and w.quantization == "fp8" else "none"
    weights = base_bytes(s, 2, stored) / tp
    own = s.max_context or 32768
    context = w.context or own
    need = _pages(w.length)
    share = w.utilization if w.vllm == "colocate" else 0.9
    # The sampler is warmed up with as many dummy requests as may run: their logits in float32, twice.
    sampler = 2 * 4 * s.vocab * (w.max_sequences if w.vllm == "colocate" else SERVER_SEQUENCES)
    fixed = (GRAPHS_GIB + NON_TORCH_GIB + ACTIVATIONS_GIB) * GIB + sampler
    one, expected = s.kv_bytes(_pages(context), 2, tp), s.kv_bytes(need, 2, tp)
    return Engine(share * w.gpu.usable_gib * GIB, weights, fixed, context, one, expected, w.max_sequences)


def _pages(tokens: int) -> int:
    return -(-tokens // BLOCK) * BLOCK


def generate_bytes(w: Workload) -> float:
    """What transformers' own generation of the whole local batch takes at its peak, in the prefill or in the last step.

    The cache has the residual stream's width, 4 bytes under float32 weights even where autocast computes in bf16 (the first keys set its type).
    A step appends to one layer's cache by copying it, repeats its heads for all queries, and casts them.
    """
    s, batch, wide = w.shape, w.generation_batch, w.weight_width
    logits = batch * s.vocab * 4 * 4
    stream = batch * w.prompt * s.hidden * wide
    prefill = batch * s.kv_bytes(w.prompt, wide) + layer_bytes(s.block(bool(s.experts)), w.mode, batch, max(1, w.prompt)).forward + 2 * stream
    cache = batch * s.kv_bytes(w.length, wide)
    narrow = 2 if wide > 2 and w.autocast else 0
    repeated = 2 * batch * w.length * s.q_size * ((wide if s.heads != s.kv_heads else 0) + narrow)
    return max(prefill, cache + max(cache / s.layers, repeated)) + logits
