"""Batches, groups and the evaluation's batches: what TRL refuses, and what silently trains nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

from grpo_rlvr.training.findings import Finding, error, note, warning
from grpo_rlvr.training.setup import Setup

# Groups below this size often hold no right or no wrong answer, hence no gradient.
USUAL_GROUP = 8


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
    elif s.train_rows is not None and (left := s.train_rows % (s.generation_batch // max(1, s.group))) >= 0.05 * s.train_rows:
        each = s.generation_batch // s.group
        yield note(
            "tail-prompts",
            f"{s.train_rows} training prompts make {s.train_rows // each} generation batches of {each}: {left} prompts are left out in each epoch,"
            " others each time",
            f"bring a multiple of {each} prompts, or a smaller generation batch",
        )


def _evaluation(s: Setup) -> Iterator[Finding]:
    strategy = s.config.grpo.get("eval_strategy", "no")
    if not s.config.data.holds_out:
        if strategy != "no":
            yield error(
                "eval-without-data",
                f"eval_strategy is {strategy} but data.eval names no rows",
                "add data.eval or data.eval_split, or delete eval_strategy",
            )
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


RULES = (_batches, _evaluation)
