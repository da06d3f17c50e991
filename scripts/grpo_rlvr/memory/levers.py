"""What can be changed to make a run fit: each change as a new workload and as a patch to `config.yaml`, with what orders the trying."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from grpo_rlvr.memory.trl_eras import NOW
from grpo_rlvr.memory.workload import Workload

LORA_RATE = 1e-5
BF16_SAFE_RATE = 1e-5  # as the lint has it: below, bf16 weights round most updates of full tuning away
SHORTEST = 256
A_MACHINE = 8  # GPUs over which an engine that is somewhere else may be spread


@dataclass(frozen=True)
class Lever:
    """One change. `cost` orders what is tried first; `patch` is what changes in the config, None deleting a key; `changes` the workload's fields.

    `anew`: makes the lever for the workload that the levers before it left, where its numbers depend on them; None from it: it cannot follow.
    `follows`: what comes with it that no memory asks for; no choice of its own.
    """

    name: str
    what: str
    cost: float
    changes: dict[str, Any]
    patch: dict[str, dict[str, Any]]
    action: str = ""
    anew: Callable[[Workload], Lever | None] | None = None
    follows: tuple[Lever, ...] = ()

    def on(self, w: Workload) -> Lever | None:
        """The lever with the numbers it has on `w`; None if it cannot be taken there."""
        return self.anew(w) if self.anew else self

    def apply(self, w: Workload) -> Workload:
        """`w` with the change and what follows it; as it is where the lever cannot be taken."""
        here = self.on(w)
        if here is None:
            return w
        for one in (here, *here.follows):
            w = w.but(**one.changes)
        return w


class Follower(Lever):
    """A change that comes with a lever."""


def options(w: Workload) -> list[list[Lever]]:
    """The independent choices that are open to `w`; of each at most one is taken, in this order: what generation saves shows after the weights."""
    makers = (
        _checkpointing, _attention, _micro_batch, _trl, _sleep, _parallel, _reference, _sharding, _dtype, _optimizer, _adapters,
        _generation, _completion,
    )  # fmt: skip
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


def _generation(w: Workload) -> Iterator[Lever]:
    """Fewer completions at a time and more generations an update. With vLLM its share decides, not how many it is asked for."""
    if w.vllm != "none" or w.iterations > 1 or w.accumulation % w.steps_per_generation:
        return  # a generation that several updates use, or use again, is part of what is learned from
    for times in (2, 4, 8, 16, 32, 64):
        if w.generation_batch % times or w.generation_batch // times * w.world % w.generations:
            return
        lever = Lever("generation", f"{times} times as many generations an update", 1.4 + 0.3 * times.bit_length(), {}, {})
        yield replace(lever, anew=partial(_divided, lever, times))


def _divided(lever: Lever, times: int, w: Workload) -> Lever | None:
    """TRL takes whole passes and whole groups only (grpo_config.py): `generation_batch_size`, which is per_device_train_batch_size x processes x
    steps_per_generation, must be a multiple of num_generations. It generates at every steps_per_generation-th pass and updates at every
    gradient_accumulation_steps-th (grpo_trainer.py, `_prepare_inputs`): where the first divides the second, all is written by the weights it
    updates. The update is over the same completions; losses that average over tokens (dapo) do so within each generation.
    """
    if w.steps_per_generation % times:
        return None
    steps = w.steps_per_generation // times
    what = f"{w.batch * steps} completions generated at a time, {w.accumulation // steps} times an update, all by the weights that they update;"
    what += f" slower: {times} times as many rounds of generation, one after the other"
    patch = {"grpo": {"steps_per_generation": steps, "generation_batch_size": None}}
    return replace(lever, what=what, changes={"steps_per_generation": steps}, patch=patch, anew=partial(_divided, lever, times))


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
    rate = _rate(w)
    lora = {"r": 16, "alpha": 32, "target_modules": "all-linear"}
    if w.full:
        common = {"lora_rank": 16, "targets": None, "optimizer": "adamw"}
        grpo = {"optim": None} if w.optimizer != "adamw" else {}
        patch = {"model": {"lora": lora}, "grpo": grpo}
        yield Lever("lora", "LoRA of rank 16 on all linear layers, base in float32", 10, common, patch, follows=rate)
        both = {**common, "dtype": "bfloat16"}
        patch = {"model": {"dtype": "bfloat16", "lora": lora}, "grpo": grpo}
        yield Lever("lora", "LoRA of rank 16 on all linear layers, base in bfloat16" + _drift(w), 12, both, patch, follows=rate)
    if w.quantization == "none" and w.engine in ("none", "ddp"):
        changes = {"quantization": "nf4-double", "dtype": "bfloat16", "lora_rank": w.lora_rank or 16, "optimizer": "adamw"}
        model = {"dtype": "bfloat16", "lora": {**(lora if w.full else {}), "quantize": "nf4"}}
        patch = {"model": model, "grpo": {"optim": None} if w.optimizer != "adamw" else {}}
        yield Lever("qlora", "QLoRA: the frozen base in 4 bits; needs bitsandbytes", 16, changes, patch, follows=rate if w.full else ())


def _rate(w: Workload) -> tuple[Lever, ...]:
    """What LoRA brings with it: adapters start at zero and hardly move at a rate for all weights."""
    if w.learning_rate >= LORA_RATE:
        return ()
    what = f"{LORA_RATE:g} instead of {w.learning_rate:g}, for LoRA and not for memory: adapters take about ten times the rate of all weights, and"
    rate = {"learning_rate": LORA_RATE}
    return (Follower("learning-rate", f"{what} would hardly learn at the old one", 0, rate, {"grpo": rate}),)


def _completion(w: Workload) -> Iterator[Lever]:
    length = w.completion
    for step in range(1, 6):
        length //= 2
        if length < SHORTEST:
            return
        yield Lever(
            "completion", f"completions of at most {length} tokens", 20 * step, {"completion": length}, {"grpo": {"max_completion_length": length}}
        )


def vllm_lever(now: Workload, final: Workload) -> Lever:
    """vLLM's settings matched to the run: from `now` to `final`, and no choice."""
    grpo = {"vllm_max_model_length": final.context}
    what = f"vLLM's context at prompt + completion, {final.context} tokens"
    if final.vllm == "colocate" and final.utilization != now.utilization:
        grpo["vllm_gpu_memory_utilization"] = final.utilization
        what += f", and a share of {final.utilization:g}"
    return Lever("vllm", what, 0, {"context": final.context, "utilization": final.utilization}, {"grpo": grpo})


def prompt_lever(w: Workload, patch: dict[str, dict[str, Any]]) -> Follower | None:
    """The prompts of `w`, stated where the patch moves what they were taken from: the config would be read with others otherwise."""
    moved = patch.get("grpo", {}).keys() & {"max_completion_length", "vllm_max_model_length"}
    if w.prompt_firm or w.vllm == "none" or not moved:
        return None
    what = f"prompts of up to {w.prompt} tokens, as this plan takes them: vLLM's context alone would say others; state more where yours are longer"
    return Follower("prompt", what, 0, {}, {"data": {"prompt_tokens": w.prompt}})


def launch_command(w: Workload, server: int = 0) -> str:
    """How training with this sharding is started, and under which `hardware:`.

    Args:
        server: GPUs of a vLLM server, beyond those that train.
    """
    if w.world == 1 and not server:
        return "train.py config.yaml"
    several = w.nodes > 1
    parts = [f"count: {w.world // w.nodes + (0 if several else server)}"]
    parts += [f"nodes: {w.nodes + bool(server)}"] if several else []
    parts += [f"sharding: {w.engine}"] if w.engine in ("fsdp2", "zero2", "zero3") else []
    parts += [f"vllm_server: {{{'' if several else 'start: true, '}gpus: {server}}}"] if server else []
    return f"train.py config.yaml --launch   # hardware: {{{', '.join(parts)}}}"
