"""What one config needs of this machine: its model, data, packages, sandbox, GPUs and their memory, disk."""

from __future__ import annotations

import dataclasses
import os
import types
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from grpo_rlvr.config import Config, looks_like_hub_name
from grpo_rlvr.environment.check import BLOCKED, OK, WARNING, Check
from grpo_rlvr.environment.machine import Card
from grpo_rlvr.environment.places import cache_folder
from grpo_rlvr.errors import GrpoRlvrError
from grpo_rlvr.memory.estimate import GIB
from grpo_rlvr.memory.hardware import Gpu, find_gpu, gpus
from grpo_rlvr.memory.plan import make_plan
from grpo_rlvr.memory.reading import read_workload
from grpo_rlvr.memory.workload import Workload


def model_check(config: Config) -> tuple[Check, bool]:
    """(whether the model is there, whether the hub must be asked for it)."""
    from grpo_rlvr.inspection.model_files import model_folder

    try:
        folder = model_folder(config)
    except GrpoRlvrError as exc:
        return Check("model", BLOCKED, exc.problems[0].message, exc.problems[0].fix), False
    name = config.model.name_or_path
    if folder is None:
        snapshots = cache_folder() / ("models--" + name.replace("/", "--")) / "snapshots"
        if any(snapshots.glob("*/*.safetensors")):
            return Check("model", OK, f"{name}, in the cache"), False
        return Check("model", WARNING, f"{name} is not on this machine yet", f"fetch it before a GPU waits for it: hf download {name}"), True
    if not any(any(folder.glob(pattern)) for pattern in ("*.safetensors", "*.bin")):
        return Check("model", BLOCKED, f"{folder} holds no weights (*.safetensors)", "give the folder that save_pretrained wrote"), False
    return Check("model", OK, str(folder)), False


def data_checks(config: Config) -> tuple[list[Check], list[str]]:
    """(the files, which of them must come from the hub)."""
    checks, remote = [], []
    for place in ("train", "eval"):
        source = getattr(config.data, place)
        if source is None:
            continue
        path = config.resolve(source)
        if path.is_file():
            checks.append(Check(f"data.{place}", OK, f"{path.name}, {path.stat().st_size / 1e6:.1f} MB"))
        elif looks_like_hub_name(source):
            checks.append(Check(f"data.{place}", OK, f"{source}, from the hub or its cache"))
            remote.append(source)
        else:
            checks.append(Check(f"data.{place}", BLOCKED, f"there is no file {path}", f"correct data.{place}; it is relative to the config's folder"))
    return checks, remote


def settings_check(config: Config, count: int) -> list[Check]:
    """What training itself refuses for want of a package or a GPU (the same code says so there)."""
    from grpo_rlvr.training.settings import check_machine

    found = [Check(p.where, BLOCKED, p.message, p.fix.removeprefix("run: ")) for p in check_machine(config, count > 0)]
    if "quantization_config" in (config.grpo.get("model_init_kwargs") or {}) and find_spec("bitsandbytes") is None:
        found.append(Check("quantisation", BLOCKED, "quantization_config needs bitsandbytes, which is not installed", "pip install bitsandbytes"))
    return found


def count_check(config: Config, cards: Sequence[Card]) -> list[Check]:
    """As many GPUs as the config trains on (those of other machines cannot be seen from here)."""
    wanted = config.hardware.count
    if not config.hardware.gpu or wanted <= len(cards) or not cards:
        return []
    fix = f"set hardware.count: {len(cards)}, or run it where there are more"
    return [Check("gpu-count", BLOCKED, f"hardware asks for {wanted} GPUs of a machine; {len(cards)} are here", fix)]


def memory_check(config: Config, cards: Sequence[Card]) -> tuple[Check, Workload | None]:
    """The memory plan, on the GPU that is here; without one, on the one that the config names."""
    try:
        gpu, where = _gpu(config, cards)
        w = read_workload(config, gpu=gpu or next(iter(gpus().values())))
        if gpu is None:
            return Check("gpu-memory", OK, "not planned: there is no GPU here and hardware.gpu names none"), w
        plan = make_plan(w)
    except GrpoRlvrError as exc:
        return Check("gpu-memory", WARNING, f"not planned: {exc.problems[0].message}", exc.problems[0].fix), None
    p = plan.deciding
    found = f"{plan.verdict}: {p.peak / GIB:.1f} GiB ({p.low / GIB:.1f}-{p.high / GIB:.1f}) of {plan.capacity / GIB:.1f} on {where}, in {p.name}"
    data = {"verdict": plan.verdict, "peak_gib": round(p.peak / GIB, 2), "usable_gib": round(plan.capacity / GIB, 2), "phase": p.name}
    fix = (plan.blockers[0].fix + "; " if plan.blockers else "") + "memory_plan.py CONFIG --fit prints the cheapest changes"
    if plan.fits:
        return Check("gpu-memory", OK, found, data=data), plan.workload
    found += "".join(f"; {b.message}" for b in plan.blockers)
    return Check("gpu-memory", WARNING if plan.verdict == "TIGHT" else BLOCKED, found, fix, data, no=True), plan.workload


def _gpu(config: Config, cards: Sequence[Card]) -> tuple[Gpu | None, str]:
    if not cards:
        return (find_gpu(config.hardware.gpu), f"{config.hardware.gpu}, which is not here") if config.hardware.gpu else (None, "")
    smallest = min(cards, key=lambda c: c.total_gib or 1e9)
    try:
        known = find_gpu(smallest.name)
        # The driver counts what torch cannot use; the known usable size is the better one unless less is there (a partition).
        total = min(known.plan_gib, smallest.total_gib or known.plan_gib)
        usable = known.usable_gib if known.unified else min(known.usable_gib, total)
        return dataclasses.replace(known, plan_gib=total, usable_gib=usable), known.title
    except GrpoRlvrError:
        if smallest.total_gib is None:
            return None, ""
        usable = round(smallest.total_gib * 0.985, 2)
        return Gpu(smallest.name, smallest.name, usable, usable, 800.0, 100.0, bf16=(smallest.capability or 8) >= 8), smallest.name


def disk_check(config: Config, w: Workload | None) -> Check:
    """Room for the checkpoints that are kept and the final model, by training's own rule."""
    from grpo_rlvr.training.preflight import check_disk

    if w is None:
        return Check("checkpoints", OK, "not counted: the model's size is not known here")
    adapters = w.shape.lora_parameters(w.lora_rank, w.targets) if not w.full else 0
    tensors = [(w.shape.parameters, 4 if w.dtype == "float32" else 2, w.full), *([(adapters, w.adapter_width, True)] if adapters else [])]
    args = types.SimpleNamespace(**{
        name: config.setting(name) for name in ("max_steps", "save_steps", "save_strategy", "save_total_limit", "save_only_model")
    })  # fmt: skip
    try:
        check_disk(tensors, args, config, w.updates)
    except GrpoRlvrError as exc:
        return Check("checkpoints", BLOCKED, exc.problems[0].message, exc.problems[0].fix)
    return Check("checkpoints", OK, "room for those that are kept and the final model")


def sandbox_of(config: Config) -> str | Sequence[str] | None:
    """What the config's code reward asks for, also one inside a length penalty or a user's own reward; None if it has none."""
    for reward in config.rewards:
        found = _sandbox_of(reward.use, reward.args or {}, config)
        if found is not None:
            return found
    return None


def _sandbox_of(use: Any, args: Mapping[str, Any], config: Config) -> str | Sequence[str] | None:
    if use == "length" and isinstance(args.get("args") or {}, Mapping):
        return _sandbox_of(args.get("use"), args.get("args") or {}, config)
    if use == "code":
        return args.get("sandbox", "auto")
    if not isinstance(use, str) or ":" not in use:
        return None
    from grpo_rlvr.rewards.code import CodeReward
    from grpo_rlvr.rewards.user_functions import load_function
    from grpo_rlvr.rewards.wrapped import wrapped_rewards

    try:
        function, _ = load_function(use, config.base)
    except GrpoRlvrError:  # said where the rewards are built
        return None
    inside = [r for r in (function, *wrapped_rewards(function)) if isinstance(r, CodeReward)]
    return inside[0].settings["sandbox"] if inside else None


def folder_check(config: Config) -> Check:
    """Whether the run folder can be written."""
    place = config.run_folder
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK):
        return Check("run-folder", BLOCKED, f"{place} cannot be written", "choose another run.folder")
    return Check("run-folder", OK, str(config.run_folder))
