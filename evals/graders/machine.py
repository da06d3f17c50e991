"""Questions to the skill's own scripts about a config: does it fit, how is it launched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from grpo_rlvr.config import Config
from grpo_rlvr.training.lint import lint
from grpo_rlvr.training.scaling import trainers

from graders.left import Left

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
TIMEOUT_S = 120


def ask(script: str, *arguments: object) -> tuple[int, dict]:
    """(exit code, the JSON object) of `script ... --json`."""
    command = [sys.executable, str(SCRIPTS / script), *map(str, arguments), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        return done.returncode, json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as exc:
        return 70, {"error": {"message": f"{type(exc).__name__}: {exc}"}}


def fits(config: Path, *arguments: object) -> tuple[bool, str]:
    """An outcome: whether the memory plan says FITS, with its numbers."""
    code, plan = ask("memory_plan.py", config, *arguments)
    if "error" in plan:
        return False, json.dumps(plan["error"])
    return code == 0, f"{plan.get('verdict')}: {plan.get('peak_gib')} GiB of {plan.get('usable_gib')}"


def accepted(left: Left) -> tuple[bool, str]:
    """An outcome: whether config.yaml loads and no rule of `--check` calls a setting an error. Code of the agent's is not loaded here."""
    config, problem = left.read_config
    if config is None:
        return False, problem
    rows = len(left.rows(config.data.train))
    errors = [f"{f.code}: {f.message}" for f in lint(config, rows or None, trainers(config)) if f.level == "error"]
    return not errors, "; ".join(errors) or "accepted"


def completions_an_update(config: Config, processes: int | None = None) -> int:
    """All processes (those of `hardware:`, unless it is known better) and accumulation steps together."""
    batch, steps = config.setting("per_device_train_batch_size"), config.setting("gradient_accumulation_steps")
    return int(batch or 8) * int(steps or 1) * (processes or trainers(config))
