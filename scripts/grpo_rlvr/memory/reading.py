"""From the config to a `Workload`: the settings of TRL that memory depends on, and what had to be assumed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.memory.adapters import targets_of
from grpo_rlvr.memory.catalog import find_shape
from grpo_rlvr.memory.hardware import Gpu, find_gpu
from grpo_rlvr.memory.prompts import MAX_DATA_BYTES, longest_prompt
from grpo_rlvr.memory.shape import ModelShape
from grpo_rlvr.memory.states import optimizer_kind
from grpo_rlvr.memory.trl_eras import Era, era_of
from grpo_rlvr.memory.workload import Workload
from grpo_rlvr.trl_settings import settings


def read_workload(config: Config, *, gpu: Gpu | None = None, shape: ModelShape | None = None, trl: str | None = None) -> Workload:
    """The run that the config describes.

    Args:
        gpu: instead of the config's `hardware.gpu`.
        shape: instead of the config's model.
        trl: a version of TRL to plan for instead of the installed one.

    Raises:
        UserError: no GPU is named, or something is not known well enough to plan.
        MissingError: the model's shape is not on this machine.
    """
    version = trl or settings().trl
    era = era_of(version)
    get = _Settings(config, era, trl is not None)
    gpu = gpu or _gpu(config)
    shape = shape or find_shape(config.model.name_or_path, config.base)
    assumed: list[str] = []
    completion = get("max_completion_length")
    if completion is None:
        raise UserError("memory", Problem("grpo.max_completion_length", "is null: a completion may then be of any length", "set it"))
    batch, accumulation = get("per_device_train_batch_size"), get("gradient_accumulation_steps")
    vllm = ("colocate" if get("vllm_mode") == "colocate" else "server") if get("use_vllm") else "none"
    count, nodes, server_gpus = config.hardware.split(vllm == "server")
    world = count * nodes
    given = get("generation_batch_size")
    per_generation = max(1, given // (batch * world)) if given else get("steps_per_generation") or accumulation
    extra = get("model_init_kwargs") or {}
    lora = config.model.lora
    context = get("vllm_max_model_length") if vllm != "none" else None
    prompt = longest_prompt(config, context, completion)
    assumed += [prompt.assumed] if prompt.assumed else []
    quantization = _quantization(extra.get("quantization_config"), shape, lora is not None, assumed)
    if lora is not None and lora.quantize:
        quantization = {"nf4": "nf4-double", "int8": "int8"}[lora.quantize]
    if quantization != "none" and lora is None:
        raise UserError("memory", Problem("model.lora", "a quantised model cannot be tuned without adapters", "add `lora:` under `model:`"))
    _notes(config, shape, gpu, extra, assumed)
    targets = targets_of(lora.target_modules, shape) if lora else None
    whole = given or batch * world * per_generation
    assumed += _refused_by_trl(whole, batch * world, get("num_generations"))
    assumed += _beyond(prompt.tokens + completion, context, shape)
    return Workload(
        shape=shape, gpu=gpu, count=count, nodes=nodes, dtype=config.model.dtype, lora_rank=lora.r if lora else 0,
        targets=targets, quantization=quantization,
        optimizer=optimizer_kind(str(get("optim"))), batch=batch, accumulation=accumulation, steps_per_generation=per_generation,
        generations=get("num_generations"), iterations=get("num_iterations"), prompt=prompt.tokens, prompt_firm=prompt.firm, completion=completion,
        checkpointing=bool(get("gradient_checkpointing")), attention=_attention(extra.get("attn_implementation")),
        autocast=bool(get("fp16") or get("bf16") is not False), beta=get("beta") or 0.0, learning_rate=get("learning_rate"),
        sharding=_sharding(config, world), vllm=vllm, utilization=get("vllm_gpu_memory_utilization"), context=context,
        tensor_parallel=get("vllm_tensor_parallel_size"), sleep=bool(get("vllm_enable_sleep_mode")) and era.sleeps,
        server_gpus=server_gpus, liger=bool(get("use_liger_kernel")), era=era, trl=version,
        updates=_updates(config, get, batch * world * accumulation), assumed=tuple(assumed),
    )  # fmt: skip


class _Settings:
    """TRL's settings as written, else the default of the planned version."""

    def __init__(self, config: Config, era: Era, named: bool) -> None:
        self.config = config
        self.defaults = (
            {"max_completion_length": era.completion, "beta": era.beta, "vllm_mode": "colocate" if era.colocate else "server"} if named else {}
        )

    def __call__(self, name: str) -> Any:
        if name not in self.config.grpo and name in self.defaults:
            return self.defaults[name]
        return self.config.setting(name)


def _gpu(config: Config) -> Gpu:
    if not config.hardware.gpu:
        fix = "write `gpu: h100-80gb` (or another) under `hardware:`, or add --gpu h100-80gb; --gpus compares all"
        raise UserError("hardware", Problem("hardware.gpu", "no GPU is named, so there is nothing to fit into", fix))
    return find_gpu(config.hardware.gpu)


def _sharding(config: Config, world: int) -> str:
    if config.hardware.sharding:
        return config.hardware.sharding
    deepspeed, fsdp = config.grpo.get("deepspeed"), config.grpo.get("fsdp")
    if deepspeed:
        stage = _zero_stage(deepspeed, config.base)
        return f"zero{stage}" if stage in (2, 3) else "ddp"
    return "fsdp2" if fsdp else "ddp" if world > 1 else "none"


def _zero_stage(value: Any, base: Path) -> int:
    if isinstance(value, str):
        path = Path(value) if Path(value).is_absolute() else base / value
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            problem = Problem("grpo.deepspeed", f"{path} cannot be read, so its ZeRO stage is not known", "write `sharding: zero3` under `hardware:`")
            raise UserError("memory", problem) from None
    part = value.get("zero_optimization") if isinstance(value, Mapping) else None
    stage = str(part.get("stage", 0)) if isinstance(part, Mapping) else "0"
    return int(stage) if stage.isdecimal() else 0


def _quantization(value: Any, shape: ModelShape, adapters: bool, assumed: list[str]) -> str:
    method = shape.quantized
    if isinstance(value, Mapping):
        method = "" if value.get("dequantize") else str(value.get("quant_method") or method)
        if value.get("load_in_4bit"):
            return "nf4-double" if value.get("bnb_4bit_use_double_quant") else "nf4"
        if value.get("load_in_8bit"):
            return "int8"
    if method == "fp8" and adapters:
        return "fp8"
    if shape.quantized:
        assumed.append(f"the checkpoint is quantised ({shape.quantized}); the plan counts its weights as if they were not")
    return "none"


def _attention(name: Any) -> str:
    text = str(name or "sdpa")
    return "flash" if "flash" in text else "eager" if text == "eager" else "sdpa"


def _updates(config: Config, get: _Settings, completions: int) -> int | None:
    """Optimizer steps of the run, where they can be known."""
    steps = get("max_steps")
    if steps and steps > 0:
        return steps
    path = config.resolve(config.data.train)
    if path.suffix != ".jsonl" or not path.is_file() or path.stat().st_size > MAX_DATA_BYTES:
        return None
    with open(path, "rb") as lines:
        rows = sum(1 for line in lines if line.strip())
    rows = min(rows, config.data.limit or rows)
    rows -= round((config.data.eval_split or 0) * rows)
    # A batch that is not full is left out of each epoch.
    return max(1, int(rows * get("num_generations") // completions * get("num_iterations") * get("num_train_epochs")))


def _refused_by_trl(whole: int, each: int, group: int) -> Iterator[str]:
    """Batches with which TRL does not start, whatever the memory."""
    wrong = []
    if group < 2:
        wrong.append(f"num_generations {group} (a group needs 2)")
    elif whole % group:
        wrong.append(f"{whole} completions a generation, no multiple of num_generations {group}")
    if whole % each:
        wrong.append(f"generation_batch_size {whole}, no multiple of the {each} completions of one pass")
    if wrong:
        yield "sizes that TRL starts with; it refuses " + "; ".join(wrong) + ": train.py --check says what to write"


def _beyond(length: int, context: int | None, shape: ModelShape) -> Iterator[str]:
    """Contexts that are shorter than what is planned for."""
    if context and context < length:
        yield f"sequences of {length} tokens; vllm_max_model_length {context} is less, and vLLM refuses or cuts what is longer"
    if shape.max_context and length > shape.max_context:
        yield f"sequences of {length} tokens, longer than the {shape.max_context} that the model's config.json allows"


def _notes(config: Config, shape: ModelShape, gpu: Gpu, extra: Mapping[str, Any], assumed: list[str]) -> None:
    if config.model.dtype == "auto":
        assumed.append("dtype auto: a checkpoint of two bytes a weight")
    if shape.vision:
        assumed.append("the language model only: vision tower and image tokens come on top")
    if not gpu.bf16 and config.grpo.get("bf16") is not False and not config.grpo.get("fp16"):
        assumed.append(f"{gpu.title} has no bf16: set bf16: false and fp16: true; sizes are the same")
    if not gpu.usable_measured:
        assumed.append(f"usable memory of {gpu.title} ({gpu.usable_gib} GiB) is assumed")
    if shape.linear_layers:
        assumed.append("linear-attention layers as the reference implementation runs them; flash-linear-attention takes less")
    if extra.get("device_map"):
        assumed.append("device_map is not planned for: all layers on one GPU")
