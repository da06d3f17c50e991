"""A run as the rules see it: its log, and what is known of its settings, rewards, end and age."""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from grpo_rlvr.diagnosis.metrics import Log, read_log
from grpo_rlvr.diagnosis.series import Series
from grpo_rlvr.errors import UserError
from grpo_rlvr.reward_uses import USES
from grpo_rlvr.yaml_file import read_mapping

# TRL 1.16's defaults of the settings that rules ask for; TRL itself is not imported.
DEFAULTS = {
    "num_generations": 8, "max_completion_length": 512, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "learning_rate": 1e-6, "beta": 0.0,
    "epsilon": 0.2, "epsilon_high": None, "num_iterations": 1, "gradient_accumulation_steps": 1, "per_device_train_batch_size": 8,
    "steps_per_generation": None, "generation_batch_size": None, "loss_type": "dapo", "importance_sampling_level": "token",
    "scale_rewards": "group", "mask_truncated_completions": False, "use_vllm": False, "max_grad_norm": 1.0, "max_steps": -1,
    "reward_weights": None, "vllm_importance_sampling_mode": "sequence_mask", "min_p": None, "vllm_max_model_length": None,
}  # fmt: skip
_FORM = re.compile(r"format|tag|xml|structure|style|template", re.I)
_CORRECT = re.compile(r"correct|accura|exact|math|answer|solve|pass|test|choice|gold|match", re.I)


@dataclass
class Run:
    """`settings` are GRPOConfig's keyword arguments as far as they are known; `known` says whether they are known at all."""

    log: Log
    path: Path = Path(".")
    settings: Mapping[str, Any] = field(default_factory=dict)
    known: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)  # config.resolved.yaml or the file given, as written
    world: int = 1
    finished: bool | None = None
    watched: bool = False
    age_s: float | None = None  # since the log was last written; None where that says nothing
    result: Mapping[str, Any] = field(default_factory=dict)
    started: Mapping[str, Any] = field(default_factory=dict)

    def setting(self, name: str) -> Any:
        """The setting, or TRL's default; `known` tells whether that is more than a guess."""
        return self.settings.get(name, DEFAULTS.get(name))

    def series(self, name: str) -> Series:
        return self.log.series(name)

    @property
    def reward(self) -> Series:
        return self.log.series("reward")

    @cached_property
    def weights(self) -> dict[str, float | None]:
        """Weight by reward name; None where it is not known."""
        given = self.settings.get("reward_weights")
        names = self.log.rewards
        if isinstance(given, list) and len(given) == len(names):
            return dict(zip(names, given, strict=True))
        return {name: _weight(self.config_rewards.get(name)) if name in self.config_rewards else None for name in names}

    @cached_property
    def config_rewards(self) -> dict[str, Mapping[str, Any]]:
        """The config's entries by the name that TRL logs."""
        found = {}
        for entry in self.config.get("rewards") or ():
            if isinstance(entry, dict) and isinstance(entry.get("use"), str):
                found[entry.get("name") or entry["use"].rpartition(":")[2] or entry["use"]] = entry
        return found

    @cached_property
    def ceiling(self) -> float:
        """The most a completion can be paid: the sum of the weights; without them 1, or more if more was seen."""
        weights = list(self.weights.values())
        if weights and all(w is not None for w in weights) and sum(w for w in weights if w > 0) > 0:
            return float(sum(w for w in weights if w > 0))
        return max(1.0, self.reward.max) if len(self.reward) else 1.0

    def role(self, name: str) -> str:
        """`correct`, `form` or `other`: from the config's `use`, else from the name."""
        use = USES.get(str((self.config_rewards.get(name) or {}).get("use", "")))
        if use is not None and use.role != "other":
            return use.role
        return "form" if _FORM.search(name) else "correct" if _CORRECT.search(name) else "other"

    def rewards_of(self, role: str) -> list[str]:
        return [name for name in self.log.rewards if self.role(name) == role]

    def mean_of(self, name: str) -> Series:
        return self.log.series(f"rewards/{name}/mean")

    @cached_property
    def correctness(self) -> Series:
        """The correctness reward with the most weight; the whole reward where none can be told."""
        names = sorted(self.rewards_of("correct"), key=lambda n: -(self.weights.get(n) or 0))
        return self.mean_of(names[0]) if names else self.reward

    @property
    def solved(self) -> float:
        """Share of what can be had that the last fifth of the run has."""
        late = [s.late.mean / top for s, top in ((self.reward, self.ceiling), (self._correct_only, 1.0)) if len(s)]
        return max(late, default=0.0)

    @property
    def still_rising(self) -> bool:
        """Whether the last fifth is still above the stretch before it."""
        if len(self.reward) < 8:
            return False
        before = self.reward.part(0.5, 0.7).mean
        return self.reward.late.mean - before > max(0.02 * self.ceiling, 0.5 * self.reward.noise)

    @property
    def _correct_only(self) -> Series:
        return self.correctness if self.rewards_of("correct") else Series((), ())

    @property
    def on_policy(self) -> bool | None:
        """Whether the loss's ratio is 1; None where the settings are not known and the log does not tell.

        vLLM changes nothing: TRL computes the old log-probabilities with the trainer's own forward pass, and the gap to vLLM's goes into a
        correction weight of its own (real runs with vLLM log a clip ratio of exactly 0, whatever the gap).
        """
        if self.known:
            accumulation = self.setting("gradient_accumulation_steps")
            batch = self.setting("per_device_train_batch_size") * self.world
            steps = self.setting("steps_per_generation") or accumulation
            if self.setting("generation_batch_size"):
                steps = max(1, self.setting("generation_batch_size") // batch)
            return accumulation % (steps * self.setting("num_iterations")) == 0
        clip = self.series("clip_ratio/region_mean")
        return False if len(clip) and clip.max > 0 else None

    @property
    def lora(self) -> bool | None:
        model = self.config.get("model")
        return bool(model.get("lora")) if isinstance(model, dict) else None

    @property
    def max_steps(self) -> int | None:
        steps = self.log.end.get("max_steps") or self.setting("max_steps")
        return int(steps) if isinstance(steps, (int, float)) and steps > 0 else None

    @property
    def step_s(self) -> float | None:
        """Seconds of a step, median."""
        times = self.series("step_time")
        return times.median if len(times) else None


def _weight(entry: Mapping[str, Any] | None) -> float | None:
    weight = (entry or {}).get("weight", 1.0)
    return float(weight) if isinstance(weight, (int, float)) and math.isfinite(weight) else None


def read_run(path: str | Path, config: str | Path | None = None, now: float | None = None) -> Run:
    """Read the log at `path` and what lies around it.

    Args:
        config: config.yaml of the run, where the folder has none.

    Raises:
        UserError: there is no log; the config cannot be read.
    """
    path = Path(path).expanduser()
    log = read_log(path)
    root = path if path.is_dir() else path.parent
    run = Run(log, path)
    if config is not None:
        run.config = read_mapping(Path(config).expanduser())
    elif (root / "config.resolved.yaml").is_file():
        with contextlib.suppress(UserError):
            run.config = read_mapping(root / "config.resolved.yaml")
    grpo = run.config.get("grpo")
    record = _json(root / "train" / "run.json")
    kept = {k: v for k, v in log.settings.items() if k in DEFAULTS}
    run.settings = {**kept, **(grpo if isinstance(grpo, dict) else {}), **(record.get("settings") or {})}
    run.known = bool(run.settings)
    starts = record.get("starts") or [{}]
    run.started = starts[-1] if isinstance(starts[-1], dict) else {}
    hardware = run.config.get("hardware")
    if isinstance(hardware, dict):
        run.world = max(1, int(hardware.get("count") or 1) * int(hardware.get("nodes") or 1)) if hardware.get("gpu") else 1
    run.result = _json(root / "train" / "result.json")
    run.finished = _finished(run, root)
    written = _written(path, root)
    run.age_s = None if written is None else max(0.0, (time.time() if now is None else now) - written)
    return run


def _finished(run: Run, root: Path) -> bool | None:
    if run.result:
        return bool(run.result.get("finished", True))
    if "global_step" in run.log.end and run.max_steps:
        return run.log.end["global_step"] >= run.max_steps
    if run.max_steps and run.log.steps:
        return run.log.last_step >= run.max_steps
    return True if "train_runtime" in run.log.end else None


def in_use(root: Path) -> bool:
    """Whether a process holds the run folder's lock: it trains now."""
    lock = root / "train" / ".lock"
    try:
        import fcntl

        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, ImportError):
        return False
    return False


def _written(path: Path, root: Path) -> float | None:
    places = [path] if path.is_file() else [root / "train/logs/progress.jsonl", root / "progress.jsonl", root / "train"]
    times = [p.stat().st_mtime for p in places if p.exists()]
    return max(times) if times else None


def _json(path: Path) -> dict:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
