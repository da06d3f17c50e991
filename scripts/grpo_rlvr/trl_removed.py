"""Settings that older GRPO recipes have and TRL's `GRPOConfig` no longer takes, with what to write instead; and defaults that have changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Removed:
    """A setting that older recipes have. `since` names the release that dropped it ("" = not known exactly)."""

    instead: str
    since: str = ""
    deprecated: bool = False


_V5 = "transformers 5.0"
_EVAL, _HUB = "eval_strategy", "hub_model_id"

# Sources: TRL's and transformers' sources by release; transformers' MIGRATION_GUIDE_V5.md, section Trainer.
REMOVED: dict[str, Removed] = {
    "max_prompt_length": Removed(
        "set data.max_prompt_tokens, which leaves longer prompts out: TRL no longer cuts them; with vLLM also vllm_max_model_length", "TRL 0.29"
    ),
    "vllm_guided_decoding_regex": Removed("write vllm_structured_outputs_regex", "TRL 0.29"),
    "use_liger_loss": Removed("delete the line: TRL's fused loss is always on", "TRL 0.29"),
    "vllm_importance_sampling_cap": Removed("write vllm_importance_sampling_clip_max", "TRL 1.6", deprecated=True),
    "use_transformers_paged": Removed("write use_transformers_continuous_batching", "", deprecated=True),
    "vllm_device": Removed("delete the line: vllm_mode colocate shares the training GPUs"),
    "vllm_dtype": Removed("delete the line: vLLM takes the dtype of the checkpoint"),
    "vllm_max_model_len": Removed("write vllm_max_model_length"),
    "vllm_enable_prefix_caching": Removed("delete the line: vLLM caches prefixes by default"),
    "wandb_log_unique_prompts": Removed("write log_unique_prompts"),
    "warmup_ratio": Removed("write warmup_steps: a value below 1 is a ratio", _V5),
    "logging_dir": Removed("set the environment variable TENSORBOARD_LOGGING_DIR", _V5),
    "no_cuda": Removed("write use_cpu", _V5),
    "evaluation_strategy": Removed(f"write {_EVAL}"),
    "evaluate_during_training": Removed(f"write {_EVAL}"),
    "per_gpu_train_batch_size": Removed("write per_device_train_batch_size", _V5),
    "per_gpu_eval_batch_size": Removed("write per_device_eval_batch_size", _V5),
    "overwrite_output_dir": Removed("delete the line; choose another run.folder to start afresh", _V5),
    "save_safetensors": Removed("delete the line: checkpoints are always safetensors"),
    "group_by_length": Removed("write train_sampling_strategy: group_by_length"),
    "adafactor": Removed("write optim: adafactor"),
    "fp16_backend": Removed("delete the line", _V5),
    "half_precision_backend": Removed("delete the line", _V5),
    "fp16_opt_level": Removed("delete the line"),
    "use_mps_device": Removed("delete the line: MPS is used where it is found", _V5),
    "use_ipex": Removed("delete the line"),
    "jit_mode_eval": Removed("write torch_compile", _V5),
    "torchdynamo": Removed("write torch_compile_backend"),
    "past_index": Removed("delete the line", _V5),
    "mp_parameters": Removed("delete the line", _V5),
    "ray_scope": Removed("set the environment variable RAY_SCOPE", _V5),
    "tpu_num_cores": Removed("set the environment variable TPU_NUM_CORES", _V5),
    "tpu_metrics_debug": Removed("write debug", _V5),
    "fsdp_min_num_params": Removed("write it in fsdp_config", _V5),
    "fsdp_transformer_layer_cls_to_wrap": Removed("write it in fsdp_config", _V5),
    "push_to_hub_token": Removed("write hub_token", _V5),
    "push_to_hub_model_id": Removed(f"write {_HUB}", _V5),
    "push_to_hub_organization": Removed(f"write {_HUB}: organization/name", _V5),
    "include_inputs_for_metrics": Removed("write include_for_metrics", _V5),
    "include_tokens_per_second": Removed("write include_num_input_tokens_seen", _V5),
    "use_legacy_prediction_loop": Removed("delete the line", _V5),
}

# What a recipe meant where it was silent: the default before each release. Source: TRL's grpo_config.py and loss, 28 releases from 0.15.2 on.
EARLIER_DEFAULTS: dict[str, tuple[tuple[str, str], ...]] = {
    "loss_type": (("grpo", "0.16"), ("bnpo", "0.22")),
    "beta": (("0.04", "0.19"),),
    "temperature": (("0.9", "0.18"),),
    "top_k": (("50", "0.18"),),
    "max_completion_length": (("256", "1.10"),),
    "gradient_checkpointing": (("false", "0.22"),),
    "use_bias_correction_kl": (("false", "1.10"),),
    "vllm_mode": (("server", "1.0"),),
    "vllm_importance_sampling_correction": (("false", "0.23"),),
    "report_to": (("all", "transformers 5.0"),),
}
# What differs with `use_vllm`: TRL 0.15 passed vLLM no top_k, and gave it a GPU (vllm_device) in the place of a server.
WITH_VLLM = {"top_k": (("none with vLLM", "0.16"), ("50", "0.18")), "vllm_mode": (("a GPU of its own", "0.16"), ("server", "1.0"))}
# Without it, or with 0 in it, the setting beside it changes nothing.
RESTS_ON = {"use_bias_correction_kl": ("beta", 0.04), "vllm_mode": ("use_vllm", False), "vllm_importance_sampling_correction": ("use_vllm", False)}
