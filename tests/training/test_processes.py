"""Two processes: one writes, all stop together, and no held-out record is lost or doubled."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT, sums, write_rows

pytestmark = pytest.mark.model


@pytest.fixture
def two(project, untaught_model):
    shutil.copytree(untaught_model, project / "model")
    write_rows(project / "train.jsonl", sums(400))
    write_rows(project / "eval.jsonl", sums(9, first=900))
    text = (project / "config.yaml").read_text()
    (project / "config.yaml").write_text(
        text.replace("max_steps: 4", "max_steps: 60\n  ddp_backend: gloo").replace("save_steps: 1", "save_steps: 100")
    )
    return project


def launch(project, **kwargs):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(ROOT / "scripts/train.py")]
    command += [str(project / "config.yaml"), "--without-gate", "a test of two processes"]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)


def steps(project):
    path = project / "run/train/logs/progress.jsonl"
    return [json.loads(line)["step"] for line in path.read_text().splitlines()] if path.exists() else []


def test_one_process_writes_and_held_out_prompts_are_counted_once(two):
    text = (two / "config.yaml").read_text()
    (two / "config.yaml").write_text(text.replace("max_steps: 60", "max_steps: 3"))
    process = launch(two)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert steps(two) == [1, 2, 3]
    assert [json.loads(line)["step"] for line in out.splitlines()] == [1, 2, 3]
    result = json.loads((two / "run/train/result.json").read_text())
    assert result["held_out"]["prompts"] == 9
    evaluated = [json.loads(line) for line in (two / "run/train/logs/eval.jsonl").read_text().splitlines()]
    assert [(e["step"], e["completions"]) for e in evaluated] == [(0, 9), (3, 9)]


def test_a_signal_stops_all_processes_at_the_same_step(two):
    process = launch(two, start_new_session=True)
    until = time.monotonic() + 200
    while len(steps(two)) < 3 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    done = steps(two)
    assert done == list(range(1, len(done) + 1)) and len(done) < 60
    assert f"stopped by SIGTERM at step {done[-1]} of 60; checkpoint-{done[-1]} is saved" in errors
    assert len(list((two / f"run/train/checkpoints/checkpoint-{done[-1]}").glob("rng_state_*.pth"))) == 2
