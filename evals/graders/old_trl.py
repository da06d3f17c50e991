"""A config of TRL 0.15 brought to the current release."""

from __future__ import annotations

from grpo_rlvr.grpo_section import check_settings
from grpo_rlvr.trl_settings import REMOVED

from graders.left import Left
from graders.machine import accepted, completions_an_update
from graders.task import Outcome
from graders.words import mentions

GONE = (
    "max_prompt_length",
    "warmup_ratio",
    "vllm_device",
    "vllm_dtype",
    "vllm_max_model_len",
    "use_liger_loss",
    "evaluation_strategy",
    "overwrite_output_dir",
)
KEPT = {
    "max_completion_length": 768, "num_generations": 6, "learning_rate": 1e-6, "lr_scheduler_type": "cosine", "max_steps": 400,
    "max_grad_norm": 0.2, "beta": 0.04, "temperature": 0.9, "seed": 7, "save_steps": 100,
}  # fmt: skip
COMPLETIONS_AN_UPDATE = 12
# Of `trl grpo --config`: what is for the script and the model, not for GRPOConfig.
OF_THE_SCRIPT = {
    "model_name_or_path",
    "dtype",
    "torch_dtype",
    "dataset_name",
    "dataset_config",
    "output_dir",
    "reward_funcs",
    "datasets",
    "dataset_train_split",
    "attn_implementation",
    "use_peft",
}


def grade(left: Left) -> list[Outcome]:
    config, _ = left.read_config
    raw = left.raw_config()
    flat = not isinstance(raw.get("grpo"), dict)
    if config is not None or not flat:
        fine, values = accepted(left), dict(config.grpo if config else raw["grpo"])
        batch = completions_an_update(config) if config else 0
    else:
        values, problems = check_settings({k: v for k, v in raw.items() if k not in OF_THE_SCRIPT})
        fine = (bool(values) and not problems, "; ".join(str(p) for p in problems) or ("accepted" if values else "config.yaml is empty or not there"))
        batch = _product(values)
    differ = [f"{k}: {values.get(k)!r} instead of {v!r}" for k, v in KEPT.items() if values.get(k) != v]
    differ += [f"{batch} completions an update instead of {COMPLETIONS_AN_UPDATE}"] * (batch != COMPLETIONS_AN_UPDATE)
    warmup, length = values.get("warmup_steps"), values.get("vllm_max_model_length")
    colocated = values.get("use_vllm") is True and values.get("vllm_mode", "colocate") == "colocate" and (length is None or length >= 1280)
    limit = config.data.max_prompt_tokens if config else None
    changes = left.text("CHANGES.md")
    missing = [name for name in GONE if name not in changes]
    return [
        fine,
        (not differ, "; ".join(differ) or "the same values"),
        (values.get("loss_type") == "grpo", f"loss_type: {values.get('loss_type')}"),
        (warmup in (0.1, 40), f"warmup_steps: {warmup}"),
        (colocated, f"use_vllm {values.get('use_vllm')}, vllm_mode {values.get('vllm_mode')}, vllm_max_model_length {length}"),
        (limit == 512 or bool(cut_explained(left.said)), f"data.max_prompt_tokens: {limit}; {cut_explained(left.said)!r}"),
        (not missing, f"not named in CHANGES.md: {', '.join(missing)}" if missing else f"all of {len(GONE)}"),
    ]


def cut_explained(text: str) -> str:
    """The place that says that long prompts are no longer cut, or are filtered."""
    return mentions(
        text,
        r"prompts?[^.\n]{0,80}(?:no longer|not|never|n't)[^.\n]{0,30}(?:cut|truncat)",
        r"(?:filter|leave out|drop)\w*[^.\n]{0,60}prompts?",
        r"max_prompt_tokens",
    )


def _product(values: dict) -> int:
    try:
        return int(values.get("per_device_train_batch_size", 8)) * int(values.get("gradient_accumulation_steps", 1))
    except (TypeError, ValueError):
        return 0


assert set(GONE) <= REMOVED.keys()
