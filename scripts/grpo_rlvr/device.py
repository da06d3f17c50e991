"""Which device and which autocast a config means on this machine; sampling and training ask here, so that they agree."""

from __future__ import annotations

from grpo_rlvr.config import Config


def device_type(config: Config) -> str:
    """ "cuda", "mps", ... as training would use it; "cpu" without an accelerator or with `grpo.use_cpu`."""
    import torch

    if config.grpo.get("use_cpu") or not torch.accelerator.is_available():
        return "cpu"
    return torch.accelerator.current_accelerator().type


def autocast(config: Config) -> str | None:
    """The dtype of training's autocast, "bfloat16" or "float16", or None.

    As TRL has it: bf16 is on unless it is switched off or fp16 is on; our own default without an accelerator is off.
    """
    written = config.grpo.get("bf16")
    if config.grpo.get("fp16"):
        return "float16"
    on = written if written is not None else device_type(config) != "cpu"
    return "bfloat16" if on else None
