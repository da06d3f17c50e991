"""Patches made whole: what a changed setting drags along, so that the config still passes `train.py --check`; and nothing that is set already."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from grpo_rlvr.diagnosis.run import Run

# Below this rate most updates of bfloat16 weights are rounded away (`train.py --check` refuses it).
ROUNDED_BELOW = 1e-5


def completed(run: Run, patch: Mapping[str, Any]) -> dict[str, Any]:
    """The patch without what the run has already, and with what it needs beside it. Settings that are not known are left alone."""
    patch = dict(patch)
    if not run.known:
        return patch
    patch = {key: value for key, value in patch.items() if not _has(run, key, value)}
    for more in (_precision, _context, _batch):
        patch |= more(run, patch)
    return patch


def _has(run: Run, key: str, value: Any) -> bool:
    section, _, name = key.partition(".")
    return section == "grpo" and run.setting(name) == value and (value is not None or name in run.settings)


def _precision(run: Run, patch: Mapping[str, Any]) -> dict[str, Any]:
    """A smaller rate needs float32 weights under full tuning."""
    rate, model = patch.get("grpo.learning_rate"), run.config.get("model")
    if not isinstance(rate, float) or not isinstance(model, dict) or run.lora or rate >= ROUNDED_BELOW:
        return {}
    return {"model.dtype": "float32"} if model.get("dtype") == "bfloat16" else {}


def _context(run: Run, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Longer completions need as many tokens more in vLLM."""
    longer, limit = patch.get("grpo.max_completion_length"), run.setting("vllm_max_model_length")
    if not isinstance(longer, int) or not run.setting("use_vllm") or not isinstance(limit, int):
        return {}
    return {"grpo.vllm_max_model_length": limit + max(0, longer - run.setting("max_completion_length"))}


def _batch(run: Run, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Larger groups need a generation batch that they divide: as many prompts as before, by accumulating more."""
    group = patch.get("grpo.num_generations")
    if not isinstance(group, int):
        return {}
    forward = run.setting("per_device_train_batch_size") * run.world
    steps = run.setting("steps_per_generation") or run.setting("gradient_accumulation_steps")
    batch = run.setting("generation_batch_size") or forward * steps
    if batch % group == 0:
        return {}
    prompts = max(1, batch // run.setting("num_generations"))
    most = math.lcm(forward, group)  # the generation batch is a multiple of both
    wanted = most * max(1, math.ceil(prompts * group / most))
    if run.setting("generation_batch_size"):
        return {"grpo.generation_batch_size": wanted}
    name = "steps_per_generation" if run.setting("steps_per_generation") else "gradient_accumulation_steps"
    return {f"grpo.{name}": wanted // forward}
