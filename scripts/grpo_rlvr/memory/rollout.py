"""What generation takes: vLLM's share and its start-up rule, or the cache of transformers' own generation. Sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grpo_rlvr.memory.layer_sizes import layer_sizes
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


def generation_moments(w: Workload) -> dict[str, dict[str, float]]:
    """What transformers' own generation of the whole local batch takes beyond weights and states, at each moment that can be its peak.

    TRL calls `generate` of the unwrapped model. Under full tuning that is the model whose forward accelerate wrapped in autocast: the cache has
    the residual stream's width (the first keys set its type, 4 bytes under float32 weights) and bf16 copies of the trained weights, the head's
    too, live until a forward ends. Under adapters PEFT hands on to the model inside it (peft_model.py, `self.base_model.generate`), which nothing
    wrapped: no autocast, all is as wide as the base, and the adapters work on copies of their own width (`operations.lora`). Both seen in a run
    of TRL 1.16 and PEFT 0.21, the sizes traced. A step appends to one layer's cache by copying it and repeats its heads for all queries.
    """
    s, batch = w.shape, w.generation_batch
    mode = replace(w.mode, autocast=w.autocast and w.full, caching=True)
    wide = mode.weight_width
    narrow = 2 if wide > 2 and mode.autocast else 0
    copies = autocast_copies(w)
    head = 2 * s.head_parameters if copies else 0
    start, whole = batch * s.kv_bytes(w.prompt, wide), batch * s.kv_bytes(w.length, wide)
    stream = batch * w.prompt * s.hidden * wide
    layer = max(size.forward for size, _ in layer_sizes(s, mode, batch, max(1, w.prompt)))
    mask = batch * w.prompt**2 if w.attention != "flash" else 0
    repeated = 2 * batch * w.length * s.q_size * ((wide if s.heads != s.kv_heads else 0) + narrow)
    # On a GPU `generate` switches experts to batched_mm for the steps: each token gets a copy of its own experts' matrices.
    expert = s.hidden * s.expert_intermediate if s.experts else 0
    picked = expert * batch * s.active_experts * (3 * wide + narrow)
    # PEFT holds all experts' matrices with their adapters in them while a layer's experts work.
    folded = 3 * expert * s.experts * wide if mode.adapted_experts else 0
    logits = batch * s.vocab * 4
    return {
        # The layer's own copies and keys and values are counted in it; the embeddings stay beside the layer's input.
        "the prompts at once": {
            "generation": start * (1 - 1 / s.layers) + layer + folded + 2 * stream + mask, "bf16_copies": copies * (1 - 1 / s.layers),
        },
        "the first logits": {"generation": start + stream + 2 * logits, "bf16_copies": copies + head},
        "the last token": {"generation": whole + max(whole / s.layers, repeated, picked + folded), "bf16_copies": copies},
        "the last logits": {"generation": whole + 2 * logits, "bf16_copies": copies + head},
        # A float32 copy of the logits, their scores, their softmax, and what `multinomial` makes.
        "the last draw": {"generation": whole + 4 * logits},
    }  # fmt: skip


def autocast_copies(w: Workload) -> float:
    """bf16 copies of every trained float32 linear weight, which autocast keeps until the forward ends."""
    if not (w.autocast and w.full and w.weight_width == 4):
        return 0
    experts = 0  # grouped products cast nothing that is kept
    return 2 * (w.shape.linear_parameters + experts)
