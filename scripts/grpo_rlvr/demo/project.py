"""The quickstart's project on disk: model, data, rewards and config, as a user would have them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grpo_rlvr.cli import write_text
from grpo_rlvr.demo import smollm2, sums, tiny

SCENARIOS = {
    "learn": "the loop as it should go: a reward that checks the answer",
    "careless": "a reward that pays for worked steps; it agrees with the truth in the samples, and the gate must stay shut",
    "never": "a model that never succeeds; the advice is supervised fine-tuning first",
}

CARELESS_REWARD = '''"""A careless reward: it pays for an answer tag and for worked steps, and never looks at the answer itself."""


def steps_reward(completions, **columns):
    """0.4 for an answer tag and 0.1 for each '=' written, at most 1."""
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    return [min(1.0, 0.4 * ("<answer>" in text) + 0.1 * text.count("=")) for text in texts]
'''


@dataclass(frozen=True)
class Project:
    """Where the project lies and what was made: `config` is the path of its config.yaml."""

    folder: Path
    config: Path
    taught: dict


def build(folder: Path, model: str, scenario: str, seed: int, steps: int | None, progress: Callable[[int, int, str], None]) -> Project:
    """Make the model and write the project's files.

    Args:
        model: "tiny" or "smollm2".
        scenario: a key of `SCENARIOS`; smollm2 has only "learn".
        steps: training steps, None for what the model needs.
        progress: as in `tiny.teach`.
    """
    folder.mkdir(parents=True, exist_ok=False)
    if model == "smollm2":
        smollm2.convert(folder / "model")
        train, held_out = smollm2.tasks(seed)
        rows = [[{"prompt": smollm2.prompt(t), "answer": t.answer} for t in split] for split in (train, held_out)]
        taught, settings = {}, _smollm2_settings(seed, steps)
    else:
        lesson = {
            "learn": tiny.Lesson(),
            # The steps must go with the right answer, as they would to someone who writes such a reward.
            "careless": tiny.Lesson(guesses=True, skill_target=0.9),
            "never": tiny.Lesson(digits=6, guesses=True, direct_share=1.0, skill_target=None),
        }[scenario]
        taught = tiny.teach(folder / "model", lesson, seed, progress)
        rng, held_rng = random.Random(seed + 100), random.Random(1234)  # noqa: S311  (draws rows)
        tasks = [[sums.draw(rng, lesson.digits, False) for _ in range(2048)], _distinct(held_rng, lesson.digits, 256)]
        rows = [[{"prompt": [{"role": "user", "content": t.question}], "answer": t.answer} for t in split] for split in tasks]
        settings = _tiny_settings(lesson.digits, seed, steps)
    for name, split in zip(("train", "eval"), rows, strict=True):
        write_text(folder / "data" / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in split))
    if scenario == "careless":
        write_text(folder / "rewards.py", CARELESS_REWARD)
    write_text(folder / "config.yaml", _config(model, scenario, seed, settings))
    return Project(folder, folder / "config.yaml", taught)


def _distinct(rng: random.Random, digits: int, count: int) -> list[sums.Sum]:
    found: dict[sums.Sum, None] = {}
    while len(found) < count:
        found[sums.draw(rng, digits, True)] = None
    return list(found)


def _tiny_settings(digits: int, seed: int, steps: int | None) -> dict:
    return {
        "max_steps": steps or 80, "per_device_train_batch_size": 128, "gradient_accumulation_steps": 1, "num_generations": 8,
        "max_completion_length": tiny.max_completion_tokens(digits), "learning_rate": 3e-4, "lr_scheduler_type": "linear", "warmup_steps": 5,
        "beta": 0.0, "temperature": 1.0, "save_steps": 20, "save_total_limit": 2, "gradient_checkpointing": False, "bf16": False, "seed": seed,
    }  # fmt: skip


def _smollm2_settings(seed: int, steps: int | None) -> dict:
    return {
        "max_steps": steps or 8, "per_device_train_batch_size": 32, "gradient_accumulation_steps": 1, "num_generations": 8,
        "num_generations_eval": 2,
        "max_completion_length": 16, "learning_rate": 2e-5, "lr_scheduler_type": "constant", "beta": 0.0, "temperature": 1.0,
        "save_strategy": "no", "gradient_checkpointing": False, "bf16": True, "seed": seed,
    }  # fmt: skip


def _config(model: str, scenario: str, seed: int, settings: dict) -> str:
    rewards = {
        # Weight 0 keeps a reward in the metrics without training on it: the format is watched, only the answer is paid.
        ("tiny", "learn"): "  - {use: exact, weight: 1.0}\n  - {use: format, weight: 0.0}\n",
        ("tiny", "never"): "  - {use: exact, weight: 1.0}\n",
        ("tiny", "careless"): "  - {use: 'rewards.py:steps_reward', weight: 1.0}\n",
        ("smollm2", "learn"): "  - {use: exact, weight: 1.0}\n  - {use: partial_format, weight: 1.0}\n",
    }[model, scenario]
    grpo = "".join(f"  {key}: {_yaml(value)}\n" for key, value in settings.items())
    eval_line = "  eval: data/eval.jsonl\n"
    return (
        f"# Written by the quickstart: {SCENARIOS[scenario]}.\n"
        f"model:\n  name_or_path: model\n  dtype: float32\n"
        f"data:\n  train: data/train.jsonl\n{eval_line}"
        f"rewards:\n{rewards}"
        f"inspection:\n  prompts: {16 if model == 'smollm2' else 32}\n  seed: {seed}\n"
        f"  reviewers: [oracle]  # outside a demonstration, a person reads: [human]\n"
        f"grpo:\n{grpo}  use_cpu: true\n"
        f"run:\n  folder: run\n"
    )


def _yaml(value: object) -> str:
    # 2e-05 without a point is text to YAML.
    return f"{value:.1e}" if isinstance(value, float) and 0 < value < 1e-3 else json.dumps(value)
