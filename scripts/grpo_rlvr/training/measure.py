"""What is there to be seen before training: the model's config.json, inspected completions, the longest prompt; and rows on both sides."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.data_files import numbers, row_number
from grpo_rlvr.data_repeats import prompt_key
from grpo_rlvr.data_split import overlap
from grpo_rlvr.inspection.jsonl import read_lines
from grpo_rlvr.inspection.model_files import model_folder
from grpo_rlvr.inspection.samples import samples_path
from grpo_rlvr.prompt_lengths import longest_prompt
from grpo_rlvr.training.findings import Finding, error, note, warning
from grpo_rlvr.training.seen import Seen, read_lengths, read_model_config

VLLM = ((0, 22, 0), (0, 31, 0))  # what TRL 1.16 supports


def look(config: Config) -> Seen:
    """What files on this machine show; nothing heavy is imported."""
    samples: list[dict] = []
    limit = None
    with contextlib.suppress(OSError):
        lines = [line.value for line in read_lines(samples_path(config.inspection_folder)) if line.value is not None]
        limit = (lines[0].get("sampling") or {}).get("max_completion_length") if lines else None
        samples = lines[1:]
    return Seen(model=read_model_config(model_folder(config)), completions=read_lengths(samples, limit))


def look_closer(seen: Seen, tokenizer: Any, rows: Sequence[dict], config: Config, model: Mapping[str, Any], parameters: int) -> Seen:
    """The same with the tokenizer's and the model's numbers."""
    return dataclasses.replace(seen, model=model, prompt_tokens=longest_prompt(tokenizer, rows, config), parameters=parameters)


ENOUGH = 50  # held-out prompts: 14 points either way at 95%


def few_held_out(held_out: Sequence[dict]) -> list[Finding]:
    """How little a small number of held-out prompts can show."""
    total = len(held_out)
    if not 0 < total < ENOUGH:
        return []
    width = 196 * (0.25 / total) ** 0.5
    message = f"{total} held-out prompts: an accuracy is known to within {width:.0f} points either way, so a smaller gain cannot be shown"
    return [note("few-held-out", message, "hold out 100 or more")]


FEW = 100  # different training prompts


def few_prompts(rows: Sequence[dict]) -> list[Finding]:
    """So few different training prompts that they can be learned one by one."""
    different: set = set()
    for row in rows:
        different.add(prompt_key(row["prompt"]))
        if len(different) >= FEW:
            return []
    message = f"{len(different)} different training prompts: a rising reward can mean that these were learned by heart, and not the task"
    return [note("few-prompts", message, "bring some hundred prompts, or believe the held-out accuracy only")]


def nothing_held_out(config: Config) -> list[Finding]:
    """A run that measures nothing but its own training prompts."""
    if config.data.holds_out:
        return []
    message = (
        "neither data.eval nor data.eval_split is set: the run cannot show that the model got better (no accuracy before and after), since the"
        " reward on its own training prompts also rises from learning by heart or from a hole in the reward"
    )
    return [note("no-held-out", message, "set data.eval_split: 0.1, or name held-out rows with data.eval")]


def both_sides(rows: Sequence[dict], held_out: Sequence[dict]) -> list[Finding]:
    """Held-out prompts that are training prompts too."""
    same, alike = overlap(rows, held_out)
    fix = "remove them from one of the two, or hold out a share of train with data.eval_split"
    total, found = len(held_out), []
    same, alike = ([row_number(held_out[i], i) for i in where] for where in (same, alike))
    if same:
        found.append(error("held-out-leak", f"{len(same)} of {total} held-out prompts are training prompts too: {numbers(same)}", fix))
    if alike:
        message = f"{len(alike)} of {total} held-out prompts are training prompts but for case or white space: {numbers(alike)}"
        found.append(error("held-out-alike", message, fix))
    return found


def here(config: Config, accelerator: bool) -> list[Finding]:
    """What this machine adds: threads of a CPU, the version of vLLM."""
    found = []
    cores = os.cpu_count() or 1
    if not accelerator and cores > 1 and not os.environ.get("OMP_NUM_THREADS"):
        message = f"OMP_NUM_THREADS is not set: on {cores} shared cores a small model takes many times longer with as many threads"
        found.append(note("cpu-threads", message, "export OMP_NUM_THREADS=1"))
    if config.setting("use_vllm") and importlib.util.find_spec("vllm") is not None:
        found += vllm_version(_version("vllm"))
    return found


def vllm_version(version: str | None) -> list[Finding]:
    """Whether TRL supports this vLLM."""
    digits = [int(part) if part.isdigit() else 0 for part in (version or "").partition("+")[0].split(".")[:3]]
    if version is None or VLLM[0] <= tuple(digits + [0] * (3 - len(digits))) <= VLLM[1]:
        return []
    low, high = (".".join(map(str, v)) for v in VLLM)
    return [warning("vllm-version", f"vLLM {version} is installed; TRL 1.16 supports {low} to {high}", f"pip install 'vllm>={low},<={high}'")]


def no_end(tokenizer: Any, generation_eos: Any = None) -> list[Finding]:
    """A tokenizer without an end token: nothing tells a finished completion from a cut one."""
    if tokenizer.eos_token_id is not None or generation_eos is not None:
        return []
    return [error("no-eos", "the tokenizer has no end token (eos_token): every completion runs to the limit and counts as cut", "set eos_token")]


def _version(package: str) -> str | None:
    import importlib.metadata

    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return None
