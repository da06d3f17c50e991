"""What a resumed run would do differently from the one that began: settings and training rows, compared and shown."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.cli import say
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.visible import fold, visible

# What changes nothing that is trained: shown, not refused.
HARMLESS_SECTIONS = ("inspection", "hardware")
HARMLESS = {
    "run.gate", "run.reward_failures", "data.eval_limit", "variant",  # a variant is in its settings
    *(f"grpo.{name}" for name in (
        "logging_steps", "logging_first_step", "save_steps", "save_strategy", "save_total_limit", "report_to", "run_name", "project",
        "trackio_space_id", "log_completions", "num_completions_to_print", "log_unique_prompts", "dataloader_num_workers",
        "dataloader_pin_memory", "vllm_server_host", "vllm_server_port", "vllm_server_base_url", "vllm_server_timeout", "vllm_group_port",
        "vllm_gpu_memory_utilization", "vllm_enable_sleep_mode", "gradient_checkpointing", "eval_strategy", "eval_steps",
    )),
}  # fmt: skip
SHOWN = 20


def changes(before: Any, now: Any, place: str = "") -> dict[str, tuple[Any, Any]]:
    """place -> (before, now) of every leaf that differs between two configs as plain mappings; None where one has nothing."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        found = {}
        for key in dict.fromkeys([*before, *now]):
            found |= changes(before.get(key), now.get(key), f"{place}.{key}" if place else str(key))
        return found
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        found = {}
        for i, (old, new) in enumerate(zip(before, now, strict=True)):
            found |= changes(old, new, f"{place}[{i}]")
        return found
    return {} if before == now else {place: (before, now)}


def matters(place: str) -> bool:
    """Whether a change there makes another run of it."""
    return place not in HARMLESS and place.partition(".")[0] not in HARMLESS_SECTIONS


def but_moves(found: Mapping[str, tuple[Any, Any]], before: str, now: str) -> dict[str, tuple[Any, Any]]:
    """The changes, without paths that lie where they lay as seen from the run folder: the project was moved, or is mounted elsewhere.

    Args:
        before: the run folder's absolute path when the run began.
        now: its path today.
    """

    def moved(old: Any, new: Any) -> bool:
        paths = isinstance(old, str) and isinstance(new, str) and os.path.isabs(old) and os.path.isabs(new)
        return paths and os.path.relpath(old, before) == os.path.relpath(new, now)

    return {place: pair for place, pair in found.items() if not moved(*pair)}


def settle(found: Mapping[str, tuple[Any, Any]], rows_changed: bool, allowed: bool, processes: tuple[int | None, int] = (None, 1)) -> None:
    """Say what changed; UserError if that makes another run and nobody allowed it.

    Args:
        processes: how many trained before (None where that is not on record), and how many do now.
    """
    heavy = [f"{place}: {_said(old)} -> {_said(new)}" for place, (old, new) in found.items() if matters(place)]
    light = [f"{place}: {_said(old)} -> {_said(new)}" for place, (old, new) in found.items() if not matters(place)]
    if processes[0] not in (None, processes[1]):
        heavy.append(f"processes that train: {processes[0]} -> {processes[1]}, and with them the completions of an update")
    if rows_changed:
        heavy.append("the training rows are not those the run began with")
    if heavy and not allowed:
        fix = "undo the change, choose another run.folder, or add --allow-changes to go on with it"
        more = [f"and {len(heavy) - SHOWN} more"] if len(heavy) > SHOWN else []
        raise UserError("run", [Problem("--resume", text, fix if i == 0 else "") for i, text in enumerate([*heavy[:SHOWN], *more])])
    for text in [*heavy, *light][:SHOWN]:
        say(f"changed since the run began: {text}")


def digest_of(rows: Sequence[dict]) -> str:
    """Identifies the training rows and their order."""
    from grpo_rlvr.inspection.jsonl import sha256

    return sha256(list(rows))


def _said(value: Any) -> str:
    return "nothing" if value is None else visible(fold(str(value), 120, 2))
