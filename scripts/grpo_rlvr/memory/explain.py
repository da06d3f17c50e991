"""Each term of the plan: its formula, this run's numbers in it, where the formula comes from, and what makes it smaller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.memory.estimate import FRAGMENTATION, GIB, TERMS
from grpo_rlvr.memory.plan import Plan
from grpo_rlvr.memory.states import OPTIMIZERS
from grpo_rlvr.memory.workload import Workload
from grpo_rlvr.schema_check import nearest


@dataclass(frozen=True)
class Explanation:
    """What `--explain` shows. `phases` are GiB of the term in each phase that has it."""

    term: str
    formula: str
    numbers: str
    source: str
    smaller: str
    phases: dict[str, float]


@dataclass(frozen=True)
class _Entry:
    formula: str
    numbers: Callable[[Workload, Plan], str]
    source: str
    smaller: str


def explain(plan: Plan, term: str) -> Explanation:
    """The explanation of one term for this plan.

    Raises:
        UserError: there is no such term.
    """
    if term not in ENTRIES:
        raise UserError("explain", Problem("--explain", f"there is no term '{term}'", nearest(term, TERMS, f"terms: {', '.join(TERMS)}")))
    entry = ENTRIES[term]
    phases = {p.name: p.terms[term] / GIB for p in plan.estimate.phases if p.terms.get(term)}
    return Explanation(term, entry.formula, entry.numbers(plan.workload, plan), entry.source, entry.smaller, phases)


def _n(value: float) -> str:
    return f"{value:,.0f}"


def _weights(w: Workload, plan: Plan) -> str:
    s = w.shape
    if w.quantization != "none":
        return f"{_n(s.linear_parameters)} in linear layers packed, {_n(s.parameters - s.linear_parameters)} others at {w.weight_width} bytes"
    stored = round(plan.estimate.states.weights * w.sharded / s.parameters, 2)
    return f"{_n(s.parameters)} parameters x {stored:g} bytes" + (f" / {w.sharded} GPUs" if w.sharded > 1 else "")


def _optimizer(w: Workload, plan: Plan) -> str:
    times, fixed = OPTIMIZERS[w.optimizer.removeprefix("paged_")]
    paged = " (paged: on the host when something else needs the room)" if w.optimizer.startswith("paged_") else ""
    each = f"{times:g} x the width of the tensor" if times else f"{fixed:g} bytes"
    if w.engine in ("zero2", "zero3"):
        each = f"12 bytes / {w.world} GPUs"
    return f"{_n(plan.estimate.states.trained)} trained parameters x {each}{paged}"


def _tokens(w: Workload) -> str:
    return f"{w.batch} x ({w.prompt} + {w.completion})"


def _layer(w: Workload, plan: Plan) -> str:
    block = w.shape.block(bool(w.shape.experts))
    experts = f", {block.active_experts} of {block.experts} experts of {block.expert_intermediate}" if block.experts else ""
    return (
        f"replayed for {_tokens(w)} tokens: hidden {block.hidden}, MLP {block.intermediate}{experts}, queries {block.q_size}, keys {block.kv_size};"
        f" residual stream of {w.mode.weight_width} bytes, autocast {'on' if w.autocast else 'off'}"
        + (f", adapters of rank {w.lora_rank} in {w.mode.adapter_width} bytes" if w.lora_rank else "")
    )


def _engine(w: Workload, plan: Plan) -> str:
    e = plan.estimate.engine
    if e is None:
        return "no vLLM in this run"
    return (
        f"{w.utilization:g} x {w.gpu.usable_gib:g} = {e.budget / GIB:.2f} GiB: weights {e.weights / GIB:.2f}, overhead {e.fixed / GIB:.2f}, cache"
        f" {e.cache / GIB:.2f} = {e.sequences} of {e.wanted} sequences of {w.length} tokens ({e.expected_sequence / GIB:.3f} each)"
    )


def _generation(w: Workload, plan: Plan) -> str:
    per = w.shape.kv_bytes(w.length, w.weight_width) / max(1, w.length)
    how = "under autocast" if w.autocast and w.full else "without autocast"
    if not w.full and w.mode.adapter_width > w.weight_width:
        how += ", so adapted layers make float32 copies of what goes in and comes out"
    at = next(p.moment for p in plan.estimate.phases if p.name == "rollout").rpartition(": ")[2]
    return f"{w.generation_batch} sequences, {w.prompt} + {w.completion} tokens x {_n(per)} bytes of cache, computed {how}; the most at: {at}"


ENTRIES: dict[str, _Entry] = {
    "weights": _Entry(
        "parameters x bytes; a tied embedding once; 4-bit: 0.5 + 4/64 bytes in linear layers (0.516 with double quantisation), the rest unquantised",
        _weights,
        "trl/trainer/utils.py create_model_from_path: a model named by a string is loaded in float32; accelerate fsdp_utils upcasts trained"
        " parameters to float32 under mixed precision; NF4 split measured (fitcheck-llm)",
        "model.dtype: bfloat16 under adapters; 4 bits; FSDP2 or ZeRO-3 over several GPUs",
    ),
    "adapters": _Entry(
        "rank x (rows + columns) of each adapted layer x 4 bytes (2 on a quantised base); all-linear takes routed experts too where PEFT can",
        lambda w, p: f"{_n(p.estimate.states.trained)} elements of rank {w.lora_rank}" if w.lora_rank else "no adapters",
        "peft autocast_adapter_dtype; trl/trainer/grpo_trainer.py casts those of quantised models to bf16; counts checked against PEFT 0.21",
        "a smaller model.lora.r; on a mixture of experts, target_modules of the attention only",
    ),
    "reference": _Entry(
        "parameters x bytes, if beta > 0 and all weights are tuned (with adapters the reference is the base with them switched off)",
        lambda w, p: f"beta {w.beta:g}, {'full tuning' if w.full else 'adapters'}",
        "trl/trainer/grpo_trainer.py: the reference model is created with the policy's dtype",
        "beta: 0.0, or adapters",
    ),
    "gradients": _Entry(
        "trained parameters x bytes; present in every forward after the first micro-batch of an update",
        lambda w, p: f"{_n(p.estimate.states.trained)} x {p.estimate.states.gradients * w.sharded / max(1, p.estimate.states.trained):.3g} bytes"
        + (f" / {w.sharded} GPUs" if w.sharded > 1 else ""),
        "torch AccumulateGrad; traced",
        "adapters; FSDP2 or ZeRO over several GPUs",
    ),
    "optimizer": _Entry(
        "trained parameters x 2 states of the tensor's width (AdamW), or 2 x 1 byte + scales (8 bits; embeddings stay in float32)",
        _optimizer,
        "torch.optim.AdamW (fused: no temporaries); transformers registers embeddings with 32 bits; deepspeed zero estimators. The states come"
        " with the first optimizer step: the second step's peak is the run's",
        "optim: adamw_8bit (little on small tied models); adapters; FSDP2 or ZeRO",
    ),
    "bf16_copies": _Entry(
        "2 bytes x trained linear parameters in float32, from the first layer of a forward to its end: autocast caches its casts",
        lambda w, p: f"2 x {_n(w.shape.linear_parameters)}" if w.weight_width == 4 and w.full else "none: not trained in float32",
        "at::autocast cached_cast (leaf parameters that want gradients); traced to 0.1%",
        "adapters (frozen weights are not cached); FSDP2 or ZeRO, which compute with bf16 weights",
    ),
    "unsharded": _Entry(
        "two layers (the one that computes, the one gathered ahead) + embedding and head, in bf16; twice the latter over several GPUs",
        lambda w, p: f"layer of {_n(w.shape.layer_parameters)}, embeddings of {_n(w.shape.embedding_parameters)} parameters, engine {w.engine}",
        "torch FSDP2 (fully_shard); the second copy calibrated on published runs of 8 GPUs",
        "smaller vocabulary; nothing in the config",
    ),
    "buckets": _Entry(
        "DDP: a second copy of the gradients; ZeRO-2: 5e8 x 2 bytes; FSDP2: gradients of the layer and of embedding and head before they are spread",
        lambda w, p: f"engine {w.engine}",
        "accelerate: gradient_as_bucket_view is off by default; deepspeed reduce_bucket_size",
        "FSDP2 instead of DDP",
    ),
    "checkpoints": _Entry(
        "layers x batch x (prompt + completion) x hidden x bytes of the residual stream (4 with float32 weights, else 2)",
        lambda w, p: f"{w.shape.layers} x {_tokens(w)} x {w.shape.hidden} x {w.weight_width}",
        "torch.utils.checkpoint keeps each layer's input; traced exactly",
        "smaller micro-batches or shorter completions",
    ),
    "kept_layers": _Entry(
        "without gradient checkpointing: all that each layer keeps for its backward, times the layers",
        _layer,
        "replay of the layer's operations; traced to 1%",
        "gradient_checkpointing: true",
    ),
    "attention_mask": _Entry(
        "batch x length^2 bytes: the boolean mask of a padded batch",
        lambda w, p: f"{w.batch} x {w.length}^2",
        "transformers masking_utils for sdpa; each layer adds a numeric copy, counted in `layer`",
        "attn_implementation: flash_attention_2 (no mask), or smaller micro-batches",
    ),
    "layer": _Entry(
        "what one decoder layer holds at the peak of its own forward and backward, by replaying its operations on sizes",
        _layer,
        "PyTorch's derivatives and Hugging Face's modelling code; within 1% of fake-tensor traces for dense models, 3% for experts",
        "smaller micro-batches or shorter completions",
    ),
    "head": _Entry(
        "TRL 1.15 and later: a tile of 4096 tokens x 32768 entries, hidden states, and vocabulary x hidden x (4 + width) where the head is trained."
        " Before: 16 bytes x scored tokens x vocabulary",
        lambda w, p: f"{w.head}: {w.batch} x {w.completion} scored tokens, vocabulary {_n(w.shape.vocab)}, hidden {w.shape.hidden}",
        "trl/kernels/chunked_logprob.py; full logits traced, and 16.19 bytes a logit in Liger's published benchmark",
        "TRL 1.15 or later; adapters (the head is frozen); before 1.15: liger, smaller micro-batches",
    ),
    "pending_head_gradient": _Entry(
        "vocabulary x hidden x bytes: the gradient of a tied head waits for that of the embedding through the whole backward",
        lambda w, p: f"{_n(w.shape.head_parameters)} x {w.weight_width}, {'tied' if w.shape.tied else 'not tied'}",
        "torch autograd: AccumulateGrad runs once both uses are there; traced",
        "adapters",
    ),
    "embedding_gradient": _Entry(
        "vocabulary x hidden x bytes: the embedding's dense gradient before it joins the one that is there",
        lambda w, p: f"{_n(w.shape.head_parameters)} x {w.weight_width}",
        "aten embedding_dense_backward; traced",
        "adapters",
    ),
    "vllm_weights": _Entry(
        "parameters x 2 bytes / tensor parallel: a second copy, whatever the trainer's width (4-bit policies are loaded in 4 bits)",
        _engine,
        "trl/generation/vllm_generation.py; TRL shares no weights with vLLM",
        "vllm_tensor_parallel_size; a server on GPUs of its own; vllm_enable_sleep_mode for the training phases",
    ),
    "vllm_overhead": _Entry(
        "CUDA graphs 0.6 + non-torch 0.6 + activations 1.0 GiB + 8 bytes x sequences x vocabulary (sampler) while awake, 1.2 GiB asleep",
        _engine,
        "assumed from few start-up logs (0.41 and 0.73 GiB of graphs, 1.27 non-torch, 2.95 of activations at 8192 batched tokens; TRL batches 4096)",
        "nothing that TRL passes on",
    ),
    "kv_cache": _Entry(
        "utilization x usable memory - weights - overhead; a token takes 2 x kv heads x head size x 2 bytes x layers (latent: rank + rope; sliding"
        " layers their window; linear attention a constant state)",
        _engine,
        "vllm gpu_worker.py and kv_cache_utils.py; token counts of start-up logs reproduced to 1%",
        "vllm_gpu_memory_utilization, with vllm_max_model_length at prompt + completion; fewer sequences then run at once",
    ),
    "generation": _Entry(
        "transformers generates: cache of the whole local batch (batch x steps_per_generation) and, in the prefill, one layer's forward over all"
        " prompts, or at the last token one layer's cache repeated for all query heads",
        _generation,
        "transformers DynamicCache. TRL generates under autocast in full tuning only: PEFT hands `generate` to the model inside, which accelerate"
        " did not wrap, and casts what adapted layers get to their float32 (seen in a run; traced to 3%, linear attention to 25%)",
        "use_vllm: true, or fewer steps_per_generation",
    ),
    "gather": _Entry(
        "the largest parameter in full while weights go to vLLM one by one; ALL parameters for adapters under ZeRO-3",
        lambda w, p: f"engine {w.engine}: {_n(w.shape.parameters if w.engine == 'zero3' and not w.full else w.shape.head_parameters)} parameters",
        "trl/generation/vllm_generation.py sync_weights",
        "FSDP2 instead of ZeRO-3 with adapters",
    ),
    "fragmentation": _Entry(
        f"{FRAGMENTATION:g} x all that the trainer allocates: reserved but unusable",
        lambda w, p: "1.02-1.11 when the allocator's rules are replayed on traced steps (mean 1.057); 1.04-1.09 measured",
        "CUDA caching allocator (sizes rounded, blocks split); T4 runs of fitcheck-llm",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; torch_empty_cache_steps",
    ),
    "context": _Entry(
        "CUDA context and kernels, two cuBLAS workspaces, and NCCL's buffers with several GPUs",
        lambda w, p: f"{w.gpu.context_gib:g} GiB + 16 MiB" + (" + 0.6 GiB" if w.world > 1 or w.vllm == "server" else ""),
        "0.14 GiB measured on a T4; 0.5 assumed for newer cards; NCCL 0.3-1 GiB assumed",
        "nothing",
    ),
}  # fmt: skip


def terms_markdown() -> str:
    """Every term as a table, for the reference."""
    rows = [f"| `{term}` | {ENTRIES[term].formula} | {ENTRIES[term].source} | {ENTRIES[term].smaller} |" for term in TERMS]
    return "\n".join(["| term | what it is | where from | what makes it smaller |", "|---|---|---|---|", *rows]) + "\n"
