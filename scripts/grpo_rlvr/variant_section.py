"""`variant:` in a config: a method's settings and rewards, under what is written in `grpo:` and `rewards:`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr import grpo_section
from grpo_rlvr.errors import Problem
from grpo_rlvr.training.variants import DEFINING, VARIANTS, settings_of
from grpo_rlvr.trl_settings import settings


def with_variant(name: str, grpo: Mapping[str, Any], rewards: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[dict], list[Problem]]:
    """(settings, entries of rewards, problems) of a config with this variant.

    What is written wins, but for the settings that make the method: another value of those is a problem. An entry of the variant's rewards
    is added unless one with the same `use` is written.
    """
    own, problems = _own_settings(name, grpo)
    for setting in DEFINING:
        if setting in own and setting in grpo and grpo[setting] != own[setting]:
            message = f"variant {name} is {setting} {own[setting]}, and grpo.{setting} says {grpo[setting]}: that is another method"
            problems.append(Problem("variant", message, f"delete grpo.{setting}, or the variant"))
    merged = {**own, **grpo}
    added = []
    for entry in VARIANTS[name].rewards:
        if any(r.get("use") == entry["use"] for r in rewards):
            continue
        args = dict(entry["args"])
        limit = merged.get("max_completion_length", _default("max_completion_length"))
        if "cache_share" in args:
            if not isinstance(limit, int):
                message = f"variant {name} punishes completions near max_completion_length, which is {limit!r}"
                problems.append(Problem("variant", message, "set grpo.max_completion_length"))
                continue
            args = {"cache": max(1, round(limit * args.pop("cache_share"))), **args}
        added.append({**entry, "args": args})
    return merged, [*rewards, *added], problems


def overridden(name: str, grpo: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings of the variant that `grpo` has another value for: name -> (the variant's, the written one)."""
    own, _ = _own_settings(name, grpo)
    return {setting: (value, grpo[setting]) for setting, value in own.items() if setting in grpo and grpo[setting] != value}


def _own_settings(name: str, grpo: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    accumulation = grpo.get("gradient_accumulation_steps", _default("gradient_accumulation_steps"))
    own = settings_of(name, accumulation if isinstance(accumulation, int) else 1)
    if grpo.get("generation_batch_size") is not None or grpo.get("steps_per_generation") is not None:
        # The batch is the user's; TRL takes only one of the two.
        own.pop("steps_per_generation", None)
    values, problems = grpo_section.check_settings(own)
    return values, [Problem("variant", f"{name} cannot be had here: {p.where} {p.message}", p.fix) for p in problems]


def _default(name: str) -> Any:
    known = settings().by_name.get(name)
    return known.default if known else None
