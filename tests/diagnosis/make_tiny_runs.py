"""Makes tests/data/tiny_runs.json: real runs of the demo's tiny model through TRL, each driven into one failure on purpose.

    python tests/diagnosis/make_tiny_runs.py WORK_FOLDER [NAME ...]

Two models are taught (half a minute each), then every run takes some ten seconds. The data file holds the logs by column,
rounded to five digits; tests turn them back into progress lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "tiny_runs.json"
LEFT_OUT = ("reward_seconds", "eta_s", "temp_c", "epoch")

REWARDS = '''"""Rewards with a hole each, for runs that are meant to fail."""


def _texts(completions):
    return [c if isinstance(c, str) else c[-1]["content"] for c in completions]


def pays_length(completions, **columns):
    """The longer the better."""
    return [min(1.0, len(text) / 60) for text in _texts(completions)]


def steps_reward(completions, **columns):
    """0.4 for an answer tag and 0.1 for each '=' written, at most 1."""
    return [min(1.0, 0.4 * ("<answer>" in text) + 0.1 * text.count("=")) for text in _texts(completions)]


def brief(completions, **columns):
    """Any digits in an answer tag are right, and short is good."""
    return [max(0.0, ("<answer>" in text and text[-10:-9].isdigit()) - 0.02 * len(text)) for text in _texts(completions)]


def format_short(completions, **columns):
    """Form only: nothing but an answer tag."""
    return [float(text.startswith("<answer>") and text.endswith("</answer>")) for text in _texts(completions)]


def any_answer(completions, **columns):
    """Pays everybody who writes an answer tag."""
    return [float("<answer>" in text) for text in _texts(completions)]


def often_none(completions, trainer_state=None, **columns):
    """A verifier that dies more and more often."""
    step = trainer_state.global_step if trainer_state else 0
    return [None if (i * 7 + step) % 40 < step else 1.0 * ("<reasoning>" in text) for i, text in enumerate(_texts(completions))]
'''


@dataclass(frozen=True)
class Run:
    """One run: what is changed, and the symptom it is driven into ("healthy" for none)."""

    symptom: str
    grpo: dict = field(default_factory=dict)
    rewards: tuple[str, ...] = ("{use: exact, weight: 1.0}", "{use: format, weight: 0.0}")
    lesson: str = "learn"


EXACT = "{use: exact, weight: 1.0}"
OFF_POLICY = {"num_iterations": 4, "save_steps": 20}
RUNS = {
    "healthy": Run("healthy", {"max_steps": 80}),
    "healthy-grpo": Run("healthy", {"loss_type": "grpo", "beta": 0.001, "num_iterations": 2}),
    "healthy-dapo": Run("healthy", {"loss_type": "dapo", "epsilon_high": 0.28, "mask_truncated_completions": True, "num_generations": 16}),
    "healthy-dr-grpo": Run("healthy", {"loss_type": "dr_grpo", "scale_rewards": "none"}),
    "healthy-gspo": Run(
        "healthy", {"importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4, "steps_per_generation": 4}
    ),
    "healthy-cispo": Run("healthy", {"loss_type": "cispo", "epsilon_high": 5.0, "scale_rewards": "batch", "num_generations": 16}),
    "healthy-sapo": Run("healthy", {"loss_type": "sapo"}),
    "rate-x1000": Run("rate_too_high", {"learning_rate": 0.3, "warmup_steps": 0}),
    "rate-x10": Run("rate_too_high", {"learning_rate": 3e-3, "lr_scheduler_type": "constant"}),
    "rate-tiny": Run("rate_without_effect", {"learning_rate": 1e-9}),
    "pays-length": Run("length_pays", {"max_completion_length": 60}, ("{use: 'rewards.py:pays_length', weight: 1.0}", "{use: exact, weight: 0.0}")),
    "careless": Run("hacking", {"max_steps": 160}, ("{use: 'rewards.py:steps_reward', weight: 1.0}", "{use: exact, weight: 0.0}"), "careless"),
    "brevity": Run("length_pays", {}, ("{use: 'rewards.py:brief', weight: 1.0}", "{use: exact, weight: 0.0}")),
    "format-only": Run("format_only", {}, ("{use: 'rewards.py:format_short', weight: 1.0}", "{use: exact, weight: 0.2}")),
    "no-end": Run("truncation", {"max_completion_length": 4}),
    "all-masked": Run("all_masked", {"max_completion_length": 4, "mask_truncated_completions": True}),
    "cold": Run("entropy_collapse", {"temperature": 0.01}),
    "entropy": Run("entropy_collapse", {"learning_rate": 1e-3, "lr_scheduler_type": "constant", "max_steps": 120}),
    "pays-all": Run("all_solved", {}, ("{use: 'rewards.py:any_answer', weight: 1.0}", "{use: exact, weight: 0.0}")),
    "never": Run("nothing_solved", {}, (EXACT,), "never"),
    "stale": Run(
        "clip_always",
        {"importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4, "num_iterations": 8, "max_steps": 160,
         "learning_rate": 1e-3},
    ),
    "nan": Run("nan", {"learning_rate": 1e18, "max_grad_norm": 1e30, "warmup_steps": 0, "num_iterations": 4}),
    "none-rising": Run("none_rising", {}, ("{use: 'rewards.py:often_none', weight: 1.0, required: true}", "{use: exact, weight: 0.0, required: false}")),
}
BASE = {
    "max_steps": 60, "per_device_train_batch_size": 64, "gradient_accumulation_steps": 1, "num_generations": 8, "max_completion_length": 29,
    "learning_rate": 3e-4, "lr_scheduler_type": "linear", "warmup_steps": 5, "beta": 0.0, "temperature": 1.0, "save_strategy": "no",
    "eval_strategy": "steps", "eval_steps": 20,
    "gradient_checkpointing": False, "bf16": False, "seed": 0, "use_cpu": True,
}  # fmt: skip


def project(work: Path, lesson: str) -> Path:
    """The demo's project with its taught model; made once."""
    from grpo_rlvr.demo.project import build

    folder = work / lesson
    if not (folder / "config.yaml").exists():
        build(folder, "tiny", lesson, 0, 60, lambda done, total, text: None)
    return folder


def config_text(folder: str, run: Run) -> str:
    grpo = {**BASE, **run.grpo}
    if run.lesson == "never":
        grpo["max_completion_length"] = 61
    lines = "".join(f"  {k}: {json.dumps(v) if not isinstance(v, float) else f'{v:.1e}'}\n" for k, v in grpo.items())
    rewards = "".join(f"  - {r}\n" for r in run.rewards)
    data = "data: {train: data/train.jsonl, eval: data/eval.jsonl, eval_limit: 64}"
    return f"model: {{name_or_path: model, dtype: float32}}\n{data}\nrewards:\n{rewards}grpo:\n{lines}run: {{folder: {folder}}}\n"


def train(work: Path, name: str, run: Run) -> dict:
    """Train one run in a process of its own; its logs by column."""
    home = project(work, run.lesson)
    (home / "rewards.py").write_text(REWARDS, encoding="utf-8")
    path = home / f"{name}.yaml"
    path.write_text(config_text(f"runs/{name}", run), encoding="utf-8")
    folder = home / "runs" / name
    progress = folder / "train" / "logs" / "progress.jsonl"
    code = 0
    if not progress.exists():
        command = [sys.executable, str(ROOT / "scripts" / "train.py"), str(path), "--without-gate", "made to fail on purpose"]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        code = done.returncode
        print(name, code, done.stderr[-600:] if code else "", flush=True)
    if not progress.exists():
        return {"symptom": run.symptom, "exit": code, "columns": {}}
    evaluations = progress.with_name("eval.jsonl")
    result = folder / "train" / "result.json"
    return {
        "symptom": run.symptom,
        "exit": code,
        "grpo": {**BASE, **run.grpo},
        "rewards": list(run.rewards),
        "columns": columns(progress),
        "evaluations": [json.loads(line) for line in evaluations.read_text().splitlines()] if evaluations.exists() else [],
        "held_out": json.loads(result.read_text()).get("held_out") if result.exists() else None,
    }


def columns(progress: Path) -> dict[str, list]:
    lines = [json.loads(line) for line in progress.read_text(encoding="utf-8").splitlines()]
    names = dict.fromkeys(key for line in lines for key in line if key not in LEFT_OUT)
    short = lambda v: float(f"{v:.5g}") if isinstance(v, float) else v  # noqa: E731
    return {name: [short(line.get(name)) for line in lines] for name in names}


def main() -> None:
    work = Path(sys.argv[1]).absolute()
    wanted = sys.argv[2:] or list(RUNS)
    kept = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    for name in wanted:
        kept[name] = train(work, name, RUNS[name])
        DATA.parent.mkdir(exist_ok=True)
        body = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in sorted(kept.items(), key=lambda kv: list(RUNS).index(kv[0]))
        )
        DATA.write_text("{\n" + body + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
