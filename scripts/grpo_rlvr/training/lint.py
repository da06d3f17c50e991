"""Settings that cannot work, that train nothing, or that do something else than they seem to: found before any model is loaded.

Errors stop the training, warnings are printed, notes explain. Every rule was seen to matter in TRL 1.16's own behaviour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from grpo_rlvr.config import Config
from grpo_rlvr.training.setup import Setup

LEVELS = ("error", "warning", "note")

# Below this rate most updates of a bfloat16 weight are smaller than half its spacing and are rounded away.
BF16_SAFE_RATE = 1e-5
# Groups below this size often hold no right or no wrong answer, hence no gradient.
USUAL_GROUP = 8


@dataclass(frozen=True)
class Finding:
    """One thing to change or to know. `code` is stable; `message` carries the numbers that disagree."""

    level: str
    code: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.level} [{self.code}] {self.message}" + (f"\n    -> {self.fix}" if self.fix else "")


def lint(config: Config, train_rows: int | None = None, world: int = 1) -> list[Finding]:
    """All findings, errors first.

    Args:
        train_rows: prompts in the training data; None leaves out the rules that need it.
        world: processes that train (GPUs of all machines).
    """
    setup = Setup(config, train_rows, world)
    found = [f for rule in (_batches, _evaluation, _precision, _loss, _off_policy, _sampling, _vllm, _saving, _inspection) for f in rule(setup)]
    return sorted(found, key=lambda f: LEVELS.index(f.level))


error, warning, note = (partial(Finding, level) for level in LEVELS)


def _processes(world: int) -> str:
    return f"{world} process{'es' if world != 1 else ''}"


def _batches(s: Setup) -> Iterator[Finding]:
    device, given, steps = s["per_device_train_batch_size"], s["generation_batch_size"], s["steps_per_generation"]
    if s["max_steps"] == 0:
        yield error("no-steps", "max_steps is 0, which transformers takes for no limit", "set max_steps, or delete it and set num_train_epochs")
    made = f"per_device_train_batch_size {device} x {_processes(s.world)}"
    if s.group < 2:
        yield error("group-size", f"num_generations is {s.group}: a group needs at least 2 completions", f"set num_generations: {USUAL_GROUP}")
    elif s.group < USUAL_GROUP:
        same = 0.8**s.group + 0.2**s.group
        yield warning(
            "small-group",
            f"num_generations is {s.group}, fewer than {USUAL_GROUP}: at a pass rate of 20%, {same:.0%} of the groups teach nothing",
            f"set num_generations: {USUAL_GROUP} or more",
        )
    if given is not None and steps is not None:
        yield error("generation-batch-both", f"generation_batch_size {given} and steps_per_generation {steps} are both set", "delete one of them")
        return
    if given is not None and given % s.step_batch:
        yield error(
            "generation-batch-step",
            f"generation_batch_size {given} is not a multiple of {made} = {s.step_batch}",
            f"set generation_batch_size: {math.ceil(given / math.lcm(s.step_batch, max(1, s.group))) * math.lcm(s.step_batch, max(1, s.group))}",
        )
        return
    if s.group >= 2 and s.generation_batch % s.group:
        need = s.group // math.gcd(s.step_batch, s.group)
        name = "steps_per_generation" if steps is not None else "gradient_accumulation_steps"
        whole = f"generation_batch_size {given}" if given is not None else f"{made} x {name} {s.steps_per_generation} = {s.generation_batch}"
        yield error(
            "generation-batch",
            f"the generation batch ({whole}) is not a multiple of num_generations {s.group}: it would cut a group",
            f"set generation_batch_size to a multiple of {math.lcm(s.step_batch, s.group)}"
            if given is not None
            else f"set {name} to a multiple of {need}, or per_device_train_batch_size to a multiple of {s.group}",
        )
    elif s.train_rows is not None and s.train_rows * s.group < s.generation_batch:
        yield error(
            "too-few-prompts",
            f"{s.train_rows} training prompts are fewer than the {s.generation_batch // s.group} of one generation batch"
            f" ({s.generation_batch} completions / num_generations {s.group}): TRL would train 0 steps and report success",
            f"bring {s.generation_batch // s.group} prompts or more, or lower gradient_accumulation_steps or per_device_train_batch_size",
        )


def _evaluation(s: Setup) -> Iterator[Finding]:
    strategy = s.config.grpo.get("eval_strategy", "no")
    if s.config.data.eval is None:
        if strategy != "no":
            yield error("eval-without-data", f"eval_strategy is {strategy} but data.eval names no rows", "add data.eval, or delete eval_strategy")
        return
    if s["dataloader_drop_last"]:
        yield error("eval-drop-last", "dataloader_drop_last would leave out held-out rows", "delete dataloader_drop_last")
    # The trainer evaluates with one completion of a prompt, in batches of the training's size, unless the config says otherwise.
    samples, device = s["num_generations_eval"] or 1, s.config.grpo.get("per_device_eval_batch_size", s["per_device_train_batch_size"])
    if device * s.world % samples:
        yield error(
            "eval-batch",
            f"the evaluation batch (per_device_eval_batch_size {device} x {_processes(s.world)} = {device * s.world}) is not a multiple"
            f" of num_generations_eval {samples}",
            f"set per_device_eval_batch_size to a multiple of {samples // math.gcd(samples, s.world)}",
        )


def _precision(s: Setup) -> Iterator[Finding]:
    dtype, rate = s.config.model.dtype, s["learning_rate"]
    if not s.lora and dtype != "float32" and rate < BF16_SAFE_RATE:
        certain = dtype == "bfloat16"
        message = f"learning_rate {rate:g} with {dtype} weights and full tuning: below {BF16_SAFE_RATE:g} most updates are rounded away"
        if certain:
            message += " (about 1% of the weights move at 5e-7)"
        elif dtype == "auto":
            message += " if the checkpoint is bfloat16, as most are"
        fix = f"set model.dtype: float32 (the computation stays bf16 by autocast), or model.lora, or learning_rate: {BF16_SAFE_RATE:.1e} or more"
        yield (error if certain else warning)("weights-rounded", message, fix)
    if s.lora and rate < BF16_SAFE_RATE:
        yield warning("lora-rate", f"learning_rate {rate:g} is low for LoRA: {BF16_SAFE_RATE:g} or more is usual", "set learning_rate: 1.0e-5")
    if s["beta"] > 0 and not s.lora:
        yield note(
            "reference-copy",
            f"beta {s['beta']:g} keeps a second copy of the model as reference ({dtype})",
            "beta: 0.0 needs none; with LoRA it costs nothing",
        )
    if s["sync_ref_model"] and s["beta"] == 0:
        yield error("no-reference", "sync_ref_model is true but beta is 0: there is no reference model", "set beta above 0 or delete sync_ref_model")


def _loss(s: Setup) -> Iterator[Finding]:
    loss, scale = s["loss_type"], s["scale_rewards"]
    if loss == "cispo" and s["epsilon_high"] is None:
        yield warning(
            "cispo-cap",
            f"loss_type cispo without epsilon_high caps every weight at epsilon {s['epsilon']:g}: the gradient shrinks to that share",
            "set epsilon_high: 5.0",
        )
    if loss == "dr_grpo" and scale != "none":
        yield warning("dr-grpo-scaling", f"loss_type dr_grpo with scale_rewards {scale} still divides by the deviation", "set scale_rewards: none")
    if loss == "dr_grpo" and s["max_completion_length"] is None:
        yield error("dr-grpo-length", "loss_type dr_grpo divides by max_completion_length, which is null", "set max_completion_length")
    if s["mask_truncated_completions"]:
        limit = s["max_completion_length"]
        yield note(
            "masked-truncation",
            f"completions cut at max_completion_length {limit} teach nothing; if all are cut the gradient is 0 without an error",
            "watch completions/clipped_ratio",
        )
    weights = [r.weight for r in s.config.rewards]
    if not any(weights):
        yield error("no-weight", f"all {len(weights)} rewards have weight 0: nothing is learned", "give one reward a weight")


def _off_policy(s: Setup) -> Iterator[Finding]:
    # cispo caps the weight itself, so there epsilon_high matters on-policy too.
    if s.on_policy and s.config.grpo.get("epsilon_high") is not None and s["loss_type"] != "cispo":
        steps, accumulation = s.cycle, s["gradient_accumulation_steps"]
        yield note(
            "clip-no-op",
            f"epsilon_high {s['epsilon_high']:g} does nothing here: a batch is used up within one update"
            f" (steps_per_generation x num_iterations {steps}, gradient_accumulation_steps {accumulation}), so the ratio is always 1",
            f"it acts where steps_per_generation x num_iterations exceeds {accumulation}",
        )


def _sampling(s: Setup) -> Iterator[Finding]:
    if s["temperature"] <= 0:
        yield error("temperature", f"temperature is {s['temperature']:g}: sampling needs a value above 0", "set temperature: 1.0")
    if not s["use_vllm"]:
        return
    # generation_kwargs override the settings of the same name.
    values = {**{n: s[n] for n in ("top_p", "top_k", "min_p")}, **(s["generation_kwargs"] or {})}
    cut = [f"{n} {values[n]}" for n, off in (("top_p", (None, 1)), ("top_k", (None, 0, -1)), ("min_p", (None, 0))) if values[n] not in off]
    if cut:
        yield warning(
            "truncated-sampling",
            f"{', '.join(cut)} with vLLM: its probabilities are of the cut distribution, the trainer's of the whole one;"
            " the correction for the difference takes most of the gradient of long completions away",
            "delete them (top_p 1.0, top_k 0, no min_p)",
        )


def _vllm(s: Setup) -> Iterator[Finding]:
    if not s["use_vllm"]:
        return
    context, completion = s["vllm_max_model_length"], s["max_completion_length"]
    if s["vllm_mode"] == "colocate" and context is None:
        fix = f"set vllm_max_model_length to the longest prompt + max_completion_length {completion}"
        yield warning("vllm-context", "use_vllm without vllm_max_model_length reserves memory for the model's whole context", fix)
    elif context is not None and completion is not None and context <= completion:
        yield error(
            "vllm-context",
            f"vllm_max_model_length {context} leaves no room for a prompt beside max_completion_length {completion}",
            f"set it above {completion}",
        )
    if s.lora and s.config.model.dtype != "float32":
        dtype = s.config.model.dtype
        yield warning(
            "merge-drift",
            f"LoRA on a {dtype} base with vLLM: each weight update merges and unmerges the adapters, which rounds the base",
            "set model.dtype: float32, or use_vllm: false",
        )
    mode = s["vllm_importance_sampling_mode"]
    if s["loss_type"] == "vespo" and s["vllm_importance_sampling_correction"] and not mode.startswith("token"):
        yield error(
            "vespo-mode", f"loss_type vespo refuses vllm_importance_sampling_mode {mode}", "set vllm_importance_sampling_mode: token_truncate"
        )


def _saving(s: Setup) -> Iterator[Finding]:
    strategy, every, accumulation = s["save_strategy"], s["save_steps"], s["gradient_accumulation_steps"]
    if strategy == "no":
        yield warning("no-checkpoints", "save_strategy is no: a killed run starts again from nothing", "set save_strategy: steps")
        return
    if strategy == "steps" and s["max_steps"] > 0 and every > s["max_steps"]:
        yield warning(
            "saves-only-at-the-end",
            f"save_steps {every:g} is more than max_steps {s['max_steps']}: a killed run starts again from nothing",
            f"set save_steps: {max(1, s['max_steps'] // 4)}",
        )
    if s["save_only_model"]:
        yield warning("model-only", "save_only_model is true: a resumed run starts with an empty optimizer", "delete save_only_model")
    if strategy == "steps" and every >= 1 and every * accumulation % s.cycle:
        updates = s.cycle // math.gcd(s.cycle, accumulation)
        yield warning(
            "save-off-cycle",
            f"save_steps {every:g} is not a multiple of the {updates} updates between two generations"
            f" (steps_per_generation x num_iterations {s.cycle} / gradient_accumulation_steps {accumulation}):"
            " a resumed run would differ from an uninterrupted one",
            f"set save_steps: {math.ceil(every / updates) * updates}",
        )


def _inspection(s: Setup) -> Iterator[Finding]:
    section = s.config.inspection
    each = section.samples_per_prompt or s.group
    if section.prompts * each < section.min_read:
        yield warning(
            "few-samples",
            f"inspection draws {section.prompts} prompts x {each} = {section.prompts * each} completions, fewer than min_read"
            f" {section.min_read}: the gate stays shut",
            f"set inspection.prompts: {math.ceil(section.min_read / each)} or more",
        )
