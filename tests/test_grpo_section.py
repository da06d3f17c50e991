"""The `grpo:` section of a config: TRL's settings by their type, what is refused and why, files for TRL's own command."""

from __future__ import annotations

import pytest
from grpo_rlvr import trl_settings
from test_config import BASE, load, problems


def grpo(tmp_path, line: str):
    return load(tmp_path, BASE + f"grpo:\n  {line}\n").grpo


def grpo_problem(tmp_path, line: str) -> str:
    found = problems(tmp_path, BASE + f"grpo:\n  {line}\n")
    found.pop("grpo", None)  # a removed setting also brings the list of defaults that have changed
    assert len(found) == 1, found
    return next(iter(found)) + ": " + next(iter(found.values()))


@pytest.mark.parametrize(
    "line, name, value",
    [
        ("learning_rate: 1e-6", "learning_rate", 1e-6),
        ("learning_rate: '5e-7'", "learning_rate", 5e-7),
        ("learning_rate: 5.0e-7", "learning_rate", 5e-7),
        ("max_steps: '8'", "max_steps", 8),
        ("max_steps: 1e3", "max_steps", 1000),
        ("save_steps: 50", "save_steps", 50),
        ("warmup_steps: 0.1", "warmup_steps", 0.1),
        ("bf16: 'True'", "bf16", True),
        ("use_vllm: yes", "use_vllm", True),
        ("epsilon_high: null", "epsilon_high", None),
        ("run_name: '8'", "run_name", "8"),
        ("scale_rewards: false", "scale_rewards", "none"),
        ("scale_rewards: true", "scale_rewards", "group"),
        ("save_strategy: no", "save_strategy", "no"),
        ("eval_strategy: steps", "eval_strategy", "steps"),
        ("report_to: [wandb, trackio]", "report_to", ["wandb", "trackio"]),
        ('model_init_kwargs: \'{"attn_implementation": "sdpa"}\'', "model_init_kwargs", {"attn_implementation": "sdpa"}),
        ("chat_template_kwargs: {dtype: x}", "chat_template_kwargs", {"dtype": "x"}),
        ("deepspeed: ds.json", "deepspeed", "ds.json"),
        ("fsdp: true", "fsdp", True),
        ("remove_unused_columns: false", "remove_unused_columns", False),
        ("optim: adamw_8bit", "optim", "adamw_8bit"),
        ("pad_to_multiple_of: 8", "pad_to_multiple_of", 8),
        ("activation: x", None, None),
    ],
)
def test_grpo_values_are_read_by_their_type(tmp_path, line, name, value):
    if name is None:
        assert "is not a setting" in grpo_problem(tmp_path, line)
        return
    got = grpo(tmp_path, line)[name]
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    "line, words",
    [
        ("learning_rate: fast", "must be a number, got the text 'fast' | write a plain number"),
        ("learning_rate: true", "got true"),
        ("learning_rate: [1]", "a list of 1"),
        ("learning_rate: -1.0", "must be at least 0, got -1.0"),
        ("learning_rate: .inf", "number"),
        ("max_steps: null", "must be a whole number, got nothing (null) | delete the line to get the default (-1)"),
        ("max_steps: 1.5", "got the number 1.5"),
        ("num_generations: null", "delete the line to get the default (8)"),
        ("num_generations: 0", "at least 1, got 0"),
        ("use_vllm: 1", "must be true or false, got the number 1 | write true or false"),
        ("top_p: 1.5", "at most 1"),
        ("top_p: 0", "must be greater than 0 and at most 1, got 0"),
        ("run_name: 8", "put the value in quotes"),
        ("loss_type: dr-grpo", "did you mean `dr_grpo`"),
        ("scale_rewards: groups", "did you mean `group`"),
        ("importance_sampling_level: sequences", "did you mean `sequence`"),
        ("multi_objective_aggregation: normalise_then_sum", "did you mean `normalize_then_sum`"),
        ("vllm_mode: collocate", "did you mean `colocate`"),
        ("vllm_importance_sampling_mode: sequence_masks", "did you mean `sequence_mask`"),
        ("save_strategy: step", "did you mean `steps`"),
        ("lr_scheduler_type: cosin", "did you mean `cosine`"),
        ("num_generation: 8", "did you mean `num_generations`"),
        ("zzzzzz: 8", "is not a setting of TRL"),
        ("3: 8", "is not a setting of TRL"),
        ("max_prompt_length: 512", "removed by TRL 0.29"),
        ("warmup_ratio: 0.1", "warmup_steps"),
        ("use_transformers_paged: true", "use_transformers_continuous_batching"),
        ("vllm_importance_sampling_cap: 2.0", "vllm_importance_sampling_clip_max"),
        ("output_dir: out", "`folder:` under `run:`"),
        ("reward_weights: [1]", "`weight:`"),
        ("peft_config: {}", "`lora:` under `model:`"),
        ("remove_unused_columns: true", "gold columns"),
        ("auto_find_batch_size: true", "per_device_train_batch_size"),
        ("model_init_kwargs: {dtype: bfloat16}", "grpo.model_init_kwargs.dtype: belongs to model.dtype"),
        ("model_init_kwargs: {torch_dtype: bfloat16}", "model.dtype"),
        ('model_init_kwargs: \'{"dtype": "bfloat16"}\'', "model.dtype"),
        ("model_init_kwargs: {revision: main}", "model.revision"),
        ("model_init_kwargs: abc", "grpo.model_init_kwargs: must be a mapping"),
        ("generation_kwargs: '[1]'", "grpo.generation_kwargs: must be a mapping"),
    ],
)
def test_grpo_values_that_are_refused(tmp_path, line, words):
    found = grpo_problem(tmp_path, line)
    assert found.startswith("grpo.")
    assert words in found


def test_removed_settings_name_the_installed_version(tmp_path):
    assert trl_settings.settings().label in grpo_problem(tmp_path, "max_prompt_length: 512")


def test_grpo_must_be_a_mapping(tmp_path):
    assert "a list of 1" in problems(tmp_path, BASE + "grpo: [beta]\n")["grpo"]


def test_several_grpo_problems_at_once(tmp_path):
    found = problems(tmp_path, BASE + "grpo: {max_prompt_length: 1, warmup_ratio: 0.1, max_steps: null, beta: x, output_dir: y}\n")
    assert set(found) == {"grpo"} | {f"grpo.{n}" for n in ("max_prompt_length", "warmup_ratio", "max_steps", "beta", "output_dir")}


def test_a_file_for_trls_own_command_is_told_where_each_line_belongs(tmp_path):
    text = "model_name_or_path: o/m\ndataset_name: o/d\nlearning_rate: 1e-6\nwarmup_ratio: 0.1\nlearning_rat: 1\n"
    found = problems(tmp_path, text)
    assert set(found) == {"model_name_or_path", "dataset_name", "learning_rat", "grpo", "grpo.warmup_ratio", "model", "data", "rewards"}
    assert "write model.name_or_path" in found["model_name_or_path"] and "write data.train" in found["dataset_name"]
    assert "warmup_steps" in found["grpo.warmup_ratio"]
    flat = problems(tmp_path, BASE + "beta: 0.0\nmax_steps: 1\nsave_steps: 1\ngrpo: {learning_rate: 1e-6}\n")
    assert flat == {"grpo": "3 TRL settings stand at the first level of the file: beta, max_steps, save_steps | put them under `grpo:`"}
