"""From the config to TRL's `GRPOConfig`: the user's settings as written, the run's own added, every addition named."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem
from grpo_rlvr.rewards.registry import BuiltReward
from grpo_rlvr.training.run_folder import RunFolder
from grpo_rlvr.training.server_address import address
from grpo_rlvr.training.vllm_server import uses_server


def grpo_settings(config: Config, rewards: Sequence[BuiltReward], run: RunFolder, held_out: bool, accelerator: bool) -> dict[str, Any]:
    """The keyword arguments of `GRPOConfig`: `grpo:` as written, plus what the run owns and what was left open.

    Args:
        held_out: whether there are rows to evaluate on.
        accelerator: whether this machine has a GPU that torch can use.
    """
    written = dict(config.grpo)
    model_init = {"dtype": config.model.dtype, **(written.pop("model_init_kwargs", None) or {})}
    if config.model.revision is not None:
        model_init["revision"] = config.model.revision
    if (quantized := quantization(config)) is not None:
        model_init["quantization_config"] = quantized
    owned = {"output_dir": str(run.checkpoints), "reward_weights": [r.weight for r in rewards], "model_init_kwargs": model_init}
    # A file of one line a step is what pollers read; TRL's own default logs each tenth step.
    left_open = {"logging_steps": 1, "report_to": "none", "disable_tqdm": True, "num_completions_to_print": 0}
    if not accelerator:
        left_open |= {"use_cpu": True, "bf16": False}
    if uses_server(config) and "vllm_server_base_url" not in written:
        owned["vllm_server_host"] = address(config)[0]
    if held_out:
        # One completion a prompt is enough for a paired comparison over many prompts.
        left_open |= {"num_generations_eval": 1, "per_device_eval_batch_size": written.get("per_device_train_batch_size", 8)}
    return {**left_open, **written, **owned}


def build_grpo_config(settings: dict[str, Any], eval_on_start: bool):
    """The `GRPOConfig`. The run decides itself when the first evaluation is due."""
    from trl import GRPOConfig

    return GRPOConfig(**{**settings, "eval_on_start": eval_on_start})


def quantization(config: Config):
    """The `BitsAndBytesConfig` of `model.lora.quantize`, or None. The computation is in the dtype of the weights that stay whole."""
    kind = config.model.lora.quantize if config.model.lora else None
    if kind is None or importlib.util.find_spec("bitsandbytes") is None:  # what is missing is said by `check_machine`
        return None
    import torch
    from transformers import BitsAndBytesConfig

    if kind == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    compute = torch.bfloat16 if config.model.dtype == "auto" else getattr(torch, config.model.dtype)
    # As in the QLoRA paper (https://arxiv.org/abs/2305.14314): 4-bit NormalFloat, the scales quantised once more.
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=compute)


def peft_config(config: Config):
    """The `LoraConfig` of `model.lora`, or None for full tuning."""
    lora = config.model.lora
    if lora is None:
        return None
    from peft import LoraConfig

    return LoraConfig(r=lora.r, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=lora.target_modules, task_type="CAUSAL_LM")


def check_machine(config: Config, accelerator: bool) -> list[Problem]:
    """What this machine lacks for training as the config asks; empty if nothing."""
    problems = []
    for setting, package in _packages_of(config.grpo):
        if importlib.util.find_spec(package) is None:
            name = package.replace("_", "-")
            problems.append(Problem(f"grpo.{setting}", f"the package {name} is not installed", f"run: pip install {name}, or change the setting"))
    if config.model.lora and importlib.util.find_spec("peft") is None:
        problems.append(Problem("model.lora", "the package peft is not installed", "run: pip install peft"))
    if config.model.lora and config.model.lora.quantize and importlib.util.find_spec("bitsandbytes") is None:
        message = f"{config.model.lora.quantize} needs the package bitsandbytes, which is not installed"
        problems.append(Problem("model.lora.quantize", message, "run: pip install bitsandbytes, or delete the line"))
    if config.model.lora and config.model.lora.quantize == "nf4" and not accelerator:
        message = "nf4 cannot be trained on a CPU: bitsandbytes packs the weights for generation, and the packed ones have no gradient"
        problems.append(Problem("model.lora.quantize", message, "train on a GPU, or set quantize: int8 or null to try things out here"))
    if config.hardware.gpu and not accelerator:
        problems.append(
            Problem(
                "hardware.gpu",
                f"the config names '{config.hardware.gpu}', and torch sees no GPU on this machine",
                "check the driver (nvidia-smi), or remove hardware.gpu to train on the CPU",
            )
        )
    if config.grpo.get("use_vllm") and importlib.util.find_spec("vllm") is None:
        problems.append(Problem("grpo.use_vllm", "vLLM is not installed", "run: pip install 'vllm>=0.22,<=0.31.0', or set grpo.use_vllm: false"))
    return problems


# Settings whose package is looked for only when training begins, or after the model is loaded.
REPORTERS = {"wandb": "wandb", "tensorboard": "tensorboard", "mlflow": "mlflow", "trackio": "trackio", "comet_ml": "comet_ml", "swanlab": "swanlab"}
OPTIMIZERS = {
    "8bit": "bitsandbytes",
    "bnb": "bitsandbytes",
    "paged": "bitsandbytes",
    "galore": "galore_torch",
    "apollo": "apollo_torch",
    "lomo": "lomo_optim",
}


def _packages_of(grpo: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(setting, import name) of what the settings need beyond TRL itself."""
    wanted = grpo.get("report_to") or []
    for name in [wanted] if isinstance(wanted, str) else wanted:
        if name in REPORTERS:
            yield f"report_to: {name}", REPORTERS[name]
    optimizer = str(grpo.get("optim") or "")
    for part, package in OPTIMIZERS.items():
        if part in optimizer:
            yield f"optim: {optimizer}", package
            break
    if grpo.get("use_liger_kernel"):
        yield "use_liger_kernel", "liger_kernel"
    if grpo.get("deepspeed"):
        yield "deepspeed", "deepspeed"


def check_launch(accelerator: bool) -> list[Problem]:
    """Whether training was started with one process a GPU; torch's DataParallel, the only other way, is refused by TRL."""
    if not accelerator or "WORLD_SIZE" in os.environ:
        return []
    import torch

    count = torch.accelerator.device_count()
    fix = "train.py CONFIG --launch --go, or CUDA_VISIBLE_DEVICES=0 for one GPU"
    return [Problem("launch", f"{count} GPUs are visible and TRL trains one process a GPU", fix)] if count > 1 else []


def bytes_on_disk(parameters: list[tuple[int, int, bool]], lora: bool, model_only: bool, checkpoints: int) -> int:
    """What `checkpoints` checkpoints and the model saved at the end take.

    Args:
        parameters: (count, bytes an element, trained) of each tensor. AdamW keeps two moments in the dtype of the weights.
        lora: only the trained tensors, the adapters, are saved.
        model_only: without the optimizer.
    """
    weights = sum(n * size for n, size, trained in parameters if trained or not lora)
    moments = 0 if model_only else sum(2 * n * size for n, size, trained in parameters if trained)
    return checkpoints * (weights + moments) + weights
