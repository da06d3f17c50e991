"""Failures of a real run: what is kept, how it ends, and that it goes on afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT
from test_train import REASON, TRAIN, edit, progress, ready, train  # noqa: F401

pytestmark = pytest.mark.model

LETTERS = "sum(c.isalpha() for c in x[0]['content']) / 16"


def test_a_reward_that_breaks_midway_stops_the_run_which_then_goes_on(ready):  # noqa: F811
    edit(ready, "max_steps: 40", "max_steps: 8")
    edit(ready, "save_steps: 7", "save_steps: 2")
    edit(ready, "run: {folder: run}", "run: {folder: run, reward_failures: 1}")
    good = (ready / "rewards.py").read_text()
    (ready / "rewards.py").write_text(
        "def letters(completions, row_id, trainer_state=None, **columns):\n"
        "    if trainer_state and row_id[0].startswith('train') and trainer_state.global_step >= 4:\n"
        "        raise ConnectionError('the verifier is away')\n"
        f"    return [{LETTERS} for x in completions]\n"
    )
    failed = train(ready, *REASON)
    assert failed.returncode == 2 and "letters: failed on 2 batches in a row" in failed.stderr and "Traceback" not in failed.stderr
    kept = json.loads((ready / "run/train/failed-batch.json").read_text())
    assert (kept["kind"], kept["reward"], kept["step"]) == ("exception", "letters", 5) and kept["samples"][0]["completion"]
    assert progress(ready)[-1]["reward_failures"] == {"letters": 1} and progress(ready)[-1]["dropped_share"] == 1.0
    (ready / "rewards.py").write_text(good)

    edit(ready, "learning_rate: 1.0e-3", "learning_rate: 2.0e-3")
    refused = train(ready, *REASON, "--resume")
    assert refused.returncode == 2 and "grpo.learning_rate: 0.001 -> 0.002" in refused.stderr and "--allow-changes" in refused.stderr
    done = train(ready, *REASON, "--resume", "--allow-changes")
    assert done.returncode == 0, done.stderr
    assert "changed since the run began: grpo.learning_rate: 0.001 -> 0.002" in done.stderr
    assert [line["step"] for line in progress(ready)] == list(range(1, 9))
    assert len(list((ready / "run").glob("config.before-*.yaml"))) == 1


def test_a_gradient_of_nan_ends_the_run_before_the_update(ready):  # noqa: F811
    edit(ready, "max_steps: 40", "max_steps: 4")
    edit(ready, "save_steps: 7", "save_steps: 1")
    poison = """
from transformers import TrainerCallback
class Poison(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        if state.global_step == 2:
            next(p for p in model.parameters() if p.grad is not None).grad[0, 0] = float("nan")
"""
    recipe = (ROOT / "templates/train.py").read_text()
    assert "callbacks=[" in recipe
    recipe = recipe.replace("def train(args)", poison + "\n\ndef train(args)").replace("callbacks=[", "callbacks=[Poison(), ")
    (ready / "train.py").write_text(recipe.replace("from transformers", "sys.path.insert(0, FOUND[0])\nfrom transformers"))
    environment = {"GRPO_RLVR_SKILL": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HOME": str(ready)}
    command = [sys.executable, str(ready / "train.py"), str(ready / "config.yaml"), *REASON, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 1, done.stderr
    error = json.loads(done.stdout)["error"]
    assert "gradient of step 3 is not finite" in error["message"] and "failed-batch.json" in error["fix"]
    assert json.loads((ready / "run/train/failed-batch.json").read_text())["kind"] == "gradient"
    assert [line["step"] for line in progress(ready)] == [1, 2]
    # The last checkpoint is from before the fault.
    from safetensors.torch import load_file

    weights = load_file(ready / "run/train/checkpoints/checkpoint-2/model.safetensors")
    assert all(w.isfinite().all() for w in weights.values())
    assert not (ready / "run/train/checkpoints/checkpoint-3").exists()


def test_a_disk_that_fills_while_saving_loses_one_checkpoint_only(ready):  # noqa: F811
    edit(ready, "max_steps: 40", "max_steps: 6")
    edit(ready, "save_steps: 7", "save_steps: 2")
    # No file may grow beyond 700 kB from the fourth step on: the weights fit, the optimizer does not.
    (ready / "rewards.py").write_text(
        "import os, resource\n"
        "def letters(completions, trainer_state=None, **columns):\n"
        "    if os.environ.get('FULL') and trainer_state and trainer_state.global_step >= 3:\n"
        "        resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, resource.RLIM_INFINITY))\n"
        f"    return [{LETTERS} for x in completions]\n"
    )
    command = [*TRAIN, str(ready / "config.yaml"), *REASON]
    failed = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "FULL": "1"}, timeout=300)
    assert failed.returncode == 3 and "a checkpoint could not be written" in failed.stderr and "--resume" in failed.stderr, failed.stderr
    done = train(ready, *REASON, "--resume")
    assert done.returncode == 0 and "going on from checkpoint-2" in done.stderr, done.stderr
    assert (ready / "run/train/checkpoints/incomplete-4").is_dir()
    assert [line["step"] for line in progress(ready)] == list(range(1, 7))
