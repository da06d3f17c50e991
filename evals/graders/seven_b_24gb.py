"""A 7B model on a card of 24 GB."""

from __future__ import annotations

import re
from functools import partial

from graders.left import Left
from graders.machine import accepted, completions_an_update, fits
from graders.task import Outcome

MODEL = "Qwen/Qwen2.5-7B-Instruct"


def grade(left: Left) -> list[Outcome]:
    config, problem = left.read_config
    if config is None:
        return [(False, problem)] * 4 + [peak_said(left.said)]
    asked = {
        "model": (config.model.name_or_path, MODEL), "num_generations": (config.num_generations, 8),
        "max_completion_length": (config.setting("max_completion_length"), 1024), "completions an update": (completions_an_update(config), 32),
    }  # fmt: skip
    other = [f"{name}: {got} instead of {wanted}" for name, (got, wanted) in asked.items() if got != wanted]
    rate, lora = config.setting("learning_rate"), config.model.lora
    return [
        accepted(left),
        partial(fits, left.folder / "config.yaml", "--gpu", "rtx-4090", "--count", 1, "--nodes", 1, "--prompt-tokens", 512),
        (not other, "; ".join(other) or "as asked"),
        (lora is not None and 5e-6 <= float(rate or 0) <= 1e-4, f"learning_rate {rate}, {'adapters' if lora else 'no adapters'}"),
        peak_said(left.said),
    ]


def peak_said(text: str) -> tuple[bool, str]:
    """A number of GB or GiB that is neither the card's nor above it."""
    numbers = [float(n) for n in re.findall(r"(?<![\d.])(\d{1,3}(?:\.\d+)?)\s*(?:-|–|to)?\s*(?:[\d.]+)?\s*Gi?B", text, re.IGNORECASE)]
    peaks = [n for n in numbers if 8 <= n <= 23.5]
    return bool(peaks), f"numbers in GB: {numbers[:10]}"
