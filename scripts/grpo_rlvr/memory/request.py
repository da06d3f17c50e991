"""What the command line asks for: a config with the flags over it, or a bare run of a named model."""

from __future__ import annotations

import argparse
import copy
import dataclasses
from pathlib import Path
from typing import Any

import yaml

from grpo_rlvr import yaml_file
from grpo_rlvr.config import config_from
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.memory.catalog import find_shape
from grpo_rlvr.memory.hardware import Gpu, find_gpu, gpus
from grpo_rlvr.memory.patches import apply_patch
from grpo_rlvr.memory.reading import read_workload
from grpo_rlvr.memory.workload import Workload


def read_request(args: argparse.Namespace) -> tuple[Workload, dict]:
    """The workload and the config mapping it came from."""
    raw, path = mapping(args)
    gpu = own_gpu(args)
    if gpu is None and args.gpus:
        gpu = next(iter(gpus().values()))
    config = config_from(raw, path)
    shape = find_shape(config.model.name_or_path, path.parent if not args.model else Path.cwd(), args.as_type)
    return read_workload(config, gpu=gpu, shape=shape, trl=args.trl), raw


def mapping(args: argparse.Namespace) -> tuple[dict, Path]:
    """The config as a mapping, with the flags over it; a bare one without CONFIG."""
    if args.config:
        path = Path(args.config).expanduser().absolute()
        raw = yaml_file.read_mapping(path)
    elif args.model:
        path = Path.cwd() / "config.yaml"
        raw = {"model": {"name_or_path": args.model}, "data": {"train": "train.jsonl"}, "rewards": [{"use": "exact"}]}
    else:
        raise UserError(
            "usage", Problem("memory_plan.py", "neither a config nor a model is named", "name config.yaml, or add --model NAME --gpu NAME")
        )
    flags: dict[str, dict[str, Any]] = {"model": {}, "hardware": {}, "data": {}, "grpo": {}}
    for section, key, value in (
        ("model", "name_or_path", args.model), ("hardware", "gpu", args.gpu), ("hardware", "count", args.count), ("hardware", "nodes", args.nodes),
        ("data", "prompt_tokens", args.prompt_tokens), ("grpo", "use_vllm", True if args.vllm else None),
        ("model", "lora", {"r": args.lora} if args.lora is not None else None),
    ):  # fmt: skip
        if value is not None:
            flags[section][key] = value
    if args.qlora is not None:
        flags["model"] |= {"lora": {"r": args.qlora, "quantize": "nf4"}, "dtype": "bfloat16"}
    raw = apply_patch(raw, {k: v for k, v in flags.items() if v})
    return with_settings(raw, args.set), path


def with_settings(raw: dict[str, Any], pairs: list[str]) -> dict[str, Any]:
    """The mapping with `section.key=value` written over it; unlike in a patch, null is a value."""
    raw = copy.deepcopy(raw)
    for pair in pairs:
        name, equals, text = pair.partition("=")
        keys = name.strip().split(".")
        if not equals or len(keys) < 2 or not all(keys):
            raise UserError("usage", Problem("--set", f"'{pair}' is not SECTION.KEY=VALUE", "write for example --set grpo.beta=0.01"))
        try:
            value = yaml_file.read_value(text)
        except (yaml.YAMLError, ValueError, RecursionError):
            raise UserError("usage", Problem("--set", f"the value of '{pair}' is no YAML", "put it in quotes")) from None
        place = raw
        for key in keys[:-1]:
            if not isinstance(place.get(key), dict):
                place[key] = {}
            place = place[key]
        place[keys[-1]] = value
    return raw


def own_gpu(args: argparse.Namespace) -> Gpu | None:
    """A GPU given by its numbers, or None."""
    if args.gpu_memory is None and args.gpu_bandwidth is None:
        return None
    for name, value in (("--gpu-memory", args.gpu_memory), ("--gpu-bandwidth", args.gpu_bandwidth)):
        if value is not None and not 0 < value < 1e6:
            raise UserError("usage", Problem(name, f"must be above 0, got {value:g}", "give GiB and GB/s"))
    try:
        base = find_gpu(args.gpu) if args.gpu else None
    except UserError:
        if args.gpu_memory is None:
            raise
        base = None
    if base is None:
        if args.gpu_memory is None:
            raise UserError("usage", Problem("--gpu-bandwidth", "the GPU's memory is not known", "add --gpu-memory GIB"))
        name = args.gpu or "own GPU"
        return Gpu(name, name, args.gpu_memory, args.gpu_memory, args.gpu_bandwidth or 800.0, 100.0)
    memory = args.gpu_memory or base.plan_gib
    usable = min(base.usable_gib, memory) if not base.unified else base.usable_gib
    return dataclasses.replace(base, usable_gib=usable, plan_gib=memory, sustained_gb_s=args.gpu_bandwidth or base.sustained_gb_s)
