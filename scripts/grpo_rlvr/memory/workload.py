"""Everything the plan depends on, in one frozen value; the config, the command line and the levers all end here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from grpo_rlvr.memory.hardware import Gpu
from grpo_rlvr.memory.layer import Mode
from grpo_rlvr.memory.shape import ModelShape
from grpo_rlvr.memory.trl_eras import NOW, Era

SHARDINGS = ("none", "ddp", "fsdp2", "zero2", "zero3")
LINEAR = ("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj", "gate_proj", "up_proj", "gate_up_proj", "down_proj")
WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2, "auto": 2}


@dataclass(frozen=True)
class Workload:
    """One training run. Lengths in tokens, the batch in completions of one GPU's forward pass.

    `quantization`: none, nf4, nf4-double, int8 or fp8 of the frozen base. `targets` None: adapters on all linear layers.
    `context`: vLLM's `max_model_len`, None for the model's own. `server_gpus`: GPUs that vLLM has for itself, 0 for none.
    `prompt_firm`: False where `prompt` was taken from vLLM's context, or would be if that were set.
    """

    shape: ModelShape
    gpu: Gpu
    count: int = 1
    nodes: int = 1
    dtype: str = "float32"
    lora_rank: int = 0
    targets: tuple[str, ...] | None = None
    quantization: str = "none"
    optimizer: str = "adamw"
    batch: int = 8
    accumulation: int = 1
    steps_per_generation: int = 1
    generations: int = 8
    iterations: int = 1
    prompt: int = 512
    completion: int = 512
    checkpointing: bool = True
    attention: str = "sdpa"
    autocast: bool = True
    beta: float = 0.0
    learning_rate: float = 1e-6
    sharding: str = "none"
    vllm: str = "none"  # none (transformers generates), colocate or server
    utilization: float = 0.3
    context: int | None = None
    tensor_parallel: int = 1
    sleep: bool = False
    server_gpus: int = 0
    liger: bool = False
    era: Era = NOW
    trl: str = ""
    updates: int | None = None
    prompt_firm: bool = field(default=True, compare=False)
    assumed: tuple[str, ...] = field(default=(), compare=False)

    def but(self, **changes) -> Workload:
        return replace(self, **changes)

    @property
    def world(self) -> int:
        """GPUs that train."""
        return self.count * self.nodes

    @property
    def length(self) -> int:
        return self.prompt + self.completion

    @property
    def full(self) -> bool:
        return self.lora_rank == 0

    @property
    def four_bit(self) -> bool:
        return self.quantization.startswith("nf4")

    @property
    def engine(self) -> str:
        """What spreads the states; on one GPU FSDP2 and ZeRO still keep float32 weights and compute with bf16 ones."""
        return self.sharding if self.world > 1 or self.sharding != "ddp" else "none"

    @property
    def sharded(self) -> int:
        """Over how many GPUs parameters are spread."""
        return self.world if self.engine in ("fsdp2", "zero3") else 1

    @cached_property
    def weight_width(self) -> int:
        """Bytes of a weight where it is computed with."""
        if self.engine in ("zero2", "zero3", "fsdp2") and self.autocast:
            return 2  # these engines compute with bf16 weights and keep float32 ones elsewhere
        return WIDTHS[self.dtype]

    @property
    def adapter_width(self) -> int:
        """PEFT keeps adapters in float32; TRL casts those of a quantised base to bf16, and ZeRO-3 keeps the base's width."""
        if self.quantization != "none":
            return 2
        return self.weight_width if self.engine == "zero3" else 4

    @property
    def head(self) -> str:
        if self.liger and self.era.liger:
            return "liger"
        return "logits_bf16" if self.era.head == "logits" and self.engine in ("zero2", "zero3") else self.era.head

    @property
    def generation_batch(self) -> int:
        """Completions one GPU generates at once."""
        return self.batch * self.steps_per_generation

    @property
    def generates_between(self) -> bool:
        """Whether completions are generated between the micro-batches of an update too, when gradients are there."""
        return (self.steps_per_generation * self.iterations) % self.accumulation != 0

    @property
    def syncs_between(self) -> bool:
        """Whether the first generation after an update, which is preceded by the transfer to vLLM, comes in the middle of the next one."""
        return self.generates_between and self.accumulation % (self.steps_per_generation * self.iterations) != 0

    @property
    def max_sequences(self) -> int:
        """What TRL passes to vLLM as `max_num_seqs`; the server gets all that the training GPUs ask for."""
        if self.vllm == "server":
            return max(1, self.generation_batch * self.world // max(1, self.server_gpus // self.tensor_parallel))
        return self.generation_batch * self.tensor_parallel

    @cached_property
    def mode(self) -> Mode:
        """How a layer is trained, for the activations."""
        targets = () if self.full else LINEAR if self.targets is None else self.targets
        # Engines that compute with bf16 weights gather the adapters in bf16 too.
        adapters = 2 if self.engine in ("fsdp2", "zero2", "zero3") and self.autocast else self.adapter_width
        return Mode(
            self.weight_width, self.autocast, self.full, self.quantization != "none", self.lora_rank, adapters, targets, self.attention,
            self.attention != "flash", self.shape.adapts_experts(self.targets) and not self.full,
        )  # fmt: skip
