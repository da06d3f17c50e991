"""Checkpoints, logs, the rate's schedule and the inspection's size."""

from __future__ import annotations

import math
from collections.abc import Iterator

from grpo_rlvr.training.findings import Finding, error, note, warning
from grpo_rlvr.training.setup import Setup


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


def _stopping(s: Setup) -> Iterator[Finding]:
    if s["enable_jit_checkpoint"]:
        yield error(
            "jit-checkpoint",
            "enable_jit_checkpoint takes SIGTERM away from this script: TRL would save somewhere in a step and end as if all steps were done",
            "delete it: SIGTERM saves a checkpoint between two generations and ends with 143",
        )


def _logging(s: Setup) -> Iterator[Finding]:
    every = s.config.grpo.get("logging_steps", 1)
    if s.config.grpo.get("logging_strategy", "steps") == "no":
        yield warning("no-logging", "logging_strategy is no: progress.jsonl stays empty", "delete it")
    elif isinstance(every, int) and 0 < s["max_steps"] < every:
        yield note(
            "logs-once", f"logging_steps {every} is more than max_steps {s['max_steps']}: one line of metrics, at the end", "set logging_steps: 1"
        )
    if s["log_completions"] and isinstance(every, int) and every > 1:
        message = f"log_completions with logging_steps {every} keeps the last generation batch of each {every} steps only"
        yield warning("tables-thin", message, "set logging_steps: 1")
    if s["log_completions"] and s.config.grpo.get("eval_strategy", "no") != "no":
        yield warning(
            "tables-overwritten",
            f"log_completions with eval_strategy {s['eval_strategy']}: the table of an evaluated step holds held-out rows instead of training's",
            "delete eval_strategy: held-out accuracy before and after is measured anyway",
        )
    if s["log_completions_hub_repo"] and not s["log_completions"]:
        yield error(
            "tables-repo", f"log_completions_hub_repo {s['log_completions_hub_repo']} needs log_completions: true", "set log_completions: true"
        )
    elif s["log_completions_hub_repo"]:
        yield warning(
            "tables-public", f"completions are uploaded to {s['log_completions_hub_repo']}, which TRL creates public", "make it private first"
        )


def _schedule(s: Setup) -> Iterator[Finding]:
    warmup, updates = s["warmup_steps"] or 0, s.updates
    if updates and warmup >= updates:
        yield warning(
            "warmup-never-ends",
            f"warmup_steps {warmup:g} for {updates} updates: the learning rate never reaches {s['learning_rate']:g}",
            "set warmup_steps: 0.1 (a share of the updates), or train longer (num_train_epochs)",
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


RULES = (_saving, _stopping, _logging, _schedule, _inspection)
