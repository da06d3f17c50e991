"""A patch goes into the run's own config: with it `train.py --check` finds no more errors than before, and it changes something."""

from __future__ import annotations

import copy
import dataclasses
import random

import pytest
import yaml
from grpo_rlvr.config import load_config
from grpo_rlvr.diagnosis.rules import diagnose
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.texts import patch_lines
from grpo_rlvr.errors import UserError
from grpo_rlvr.training.lint import lint
from grpo_rlvr.training.variants import settings_of

from diagnosis.planted import PLANTS, healthy, run_of

BASE = {
    "model": {"name_or_path": "m", "dtype": "float32"},
    "data": {"train": "t.jsonl"},
    "rewards": [{"use": "math", "weight": 1.0}, {"use": "format", "weight": 0.2}],
    "hardware": {"gpu": "h100-80gb"},
    "grpo": {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "learning_rate": 1e-6, "max_steps": 200, "save_steps": 48},
}
VLLM = {"use_vllm": True, "vllm_max_model_length": 1024}
CONFIGS = {
    "plain": {},
    "adapters": {"model": {"lora": {"r": 8}, "dtype": "bfloat16"}, "grpo": {"learning_rate": 1e-5, **VLLM}},
    "vllm": {"grpo": VLLM},
    "bfloat16": {"model": {"dtype": "bfloat16"}, "grpo": {"learning_rate": 2e-5}},
    "reuse": {"grpo": {"num_iterations": 2, "loss_type": "grpo"}},
    "small groups": {"grpo": {"num_generations": 4, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 1}},
    "small batch": {"grpo": {"num_generations": 4, "per_device_train_batch_size": 4, "generation_batch_size": 12, "gradient_accumulation_steps": 3}},
    "variant grpo": {"variant": "grpo", "grpo": {"num_iterations": 2, "epsilon": 0.1}},
    "variant gspo": {"variant": "gspo"},
    "kl": {"grpo": {"beta": 0.04}},
}


def config_of(changes: dict) -> dict:
    config = copy.deepcopy(BASE)
    for key, value in changes.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    return config


def sick_run(name: str, config: dict) -> Run:
    kind, plant = PLANTS[name]
    rows, planted, held_out = healthy(0, kind, 120)
    plant(rows, planted, held_out, random.Random(10_000))
    settings = {**settings_of(config["variant"], 4), **config["grpo"]} if config.get("variant") else config["grpo"]
    kept = {k: planted[k] for k in ("mask_truncated_completions", "reward_weights") if k in planted}
    for row in rows if name != "rate_without_effect" else ():
        row["lr"] = config["grpo"]["learning_rate"]
    run = run_of(rows, {**settings, **kept}, held_out, config)
    return dataclasses.replace(run, finished=name == "nothing_trained", watched=name == "stalled", age_s=1e5)


def errors(config: dict, folder) -> set[str]:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    try:
        return {str(f) for f in lint(load_config(path), 600) if f.level == "error"}
    except UserError as exc:
        return {str(problem) for problem in exc.problems}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_patch_passes_the_check_and_changes_something(name, tmp_path):
    (tmp_path / "t.jsonl").write_text('{"prompt": "x", "answer": "1"}\n' * 600)
    config = config_of(CONFIGS[name])
    assert errors(config, tmp_path) == set()
    patched = 0
    for symptom in PLANTS:
        run = sick_run(symptom, config)
        for finding in diagnose(run).findings:
            text = yaml.safe_load("\n".join(patch_lines(finding.patch))) or {}  # as a person pastes it; words stand as comments
            new = copy.deepcopy(config)
            for section, value in text.items():
                if isinstance(value, dict):
                    new.setdefault(section, {}).update(value)
                elif value is not None:
                    new[section] = value
            assert errors(new, tmp_path) == set(), (symptom, finding.name, finding.patch)
            same = {k: v for k, v in (text.get("grpo") or {}).items() if run.setting(k) == v and k in run.settings}
            assert not same, (symptom, finding.name, same)
            patched += bool(text)
    assert patched >= 5


def test_a_patch_takes_along_what_it_needs():
    def patch(name: str, symptom: str) -> dict:
        return dict(next(f.patch for f in diagnose(sick_run(symptom, config_of(CONFIGS[name]))).findings if f.name == symptom))

    assert patch("vllm", "truncation") == {"grpo.max_completion_length": 1024, "grpo.vllm_max_model_length": 1536}
    assert patch("small groups", "dead_groups") == {"grpo.num_generations": 8, "grpo.gradient_accumulation_steps": 2}
    assert patch("small batch", "dead_groups") == {"grpo.num_generations": 8, "grpo.generation_batch_size": 24}
    assert patch("bfloat16", "rate_too_high") == {"grpo.learning_rate": 2e-6, "model.dtype": "float32"}
    assert patch("variant grpo", "length_growth") == {"variant": "dr_grpo", "grpo.epsilon": 0.2}
    assert "variant: dr_grpo" in patch_lines(patch("variant grpo", "length_growth"))
    assert not any("epsilon" in key or key == "variant" for key in patch("variant gspo", "entropy_collapse"))


def test_a_rate_that_still_warms_up_is_told_from_one_that_is_too_small():
    rows, _, _ = healthy(3, "short", 120)
    rng = random.Random(3)
    for i, row in enumerate(rows):
        row |= {"lr": 1e-7 * i / 119, "reward": rng.gauss(0.3, 0.02), "rewards/math/mean": rng.gauss(0.3, 0.02), "entropy": rng.gauss(0.5, 0.01)}
        row |= {"completions/mean_length": rng.gauss(100, 2), "frac_reward_zero_std": 0.3, "rewards/format/mean": 0.5}
    (finding,) = diagnose(run_of(rows, {"learning_rate": 1e-6, "warmup_steps": 1200}, {})).findings
    assert finding.name == "rate_without_effect" and "warms up" in finding.cause and finding.patch == {"grpo.warmup_steps": 10}
