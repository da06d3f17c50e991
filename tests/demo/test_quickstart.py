"""The quickstart's scenarios, whole: real models, real training."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import ROOT
from documents import unnamed_files
from grpo_rlvr.demo.smollm2 import find_weights
from grpo_rlvr.errors import MissingError

pytestmark = pytest.mark.model


def quickstart(folder, *flags) -> dict:
    command = [sys.executable, str(ROOT / "scripts" / "quickstart.py"), "--json", "--folder", str(folder), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout) | {"stderr": done.stderr}


def assert_learned(result, folder, least_points):
    for judged in (result["training"]["held_out"], result["oracle"]):
        assert judged["ci95"][0] > 0
        assert judged["difference"] > least_points
    gate = json.loads((folder / "run/inspection/gate.json").read_text())
    assert (gate["open"], gate["reviewer_kind"]) == (True, "oracle")
    assert gate["counts"]["read"] >= 50
    assert unnamed_files(folder / "run") == []


@pytest.mark.parametrize("seed", [3])
def test_tiny_learns(tmp_path, seed):
    folder = tmp_path / "a folder of ü"
    result = quickstart(folder, "--seed", str(seed))
    assert_learned(result, folder, 0.3)
    lines = [json.loads(line) for line in (folder / "run/train/logs/progress.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 81))
    # The longer style is the one that succeeds.
    assert lines[-1]["completions/mean_length"] > lines[0]["completions/mean_length"] + 3
    # What it says to try next can be typed as it stands.
    (line,) = [line for line in result["stderr"].splitlines() if "diagnose.py" in line]
    done = subprocess.run(line.partition("#")[0], shell=True, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "healthy: no symptom" in done.stdout, done.stdout + done.stderr
    assert (folder / "run" / "report.html").is_file()


def test_the_careless_reward_is_caught_although_it_agrees_with_the_truth(tmp_path):
    folder = tmp_path / "careless"
    result = quickstart(folder, "--scenario", "careless")
    assert result["correlation"] > 0.9
    assert result["signal"]["verdict"] == "go"
    gate = result["gate"]
    assert not gate["open"]
    finding = next(f for f in gate["probes"] if f["severity"] == "error")
    assert finding["unpunished"] == finding["mutants"] > 20
    mutant = finding["example"]["mutant"]["completion"][-1]["content"]
    assert mutant in result["stderr"]
    assert not (folder / "run/train").exists()
    done = subprocess.run([sys.executable, str(ROOT / "scripts/train.py"), str(folder / "config.yaml")], capture_output=True, text=True)
    assert done.returncode == 1 and "the gate is shut" in done.stderr


def test_a_model_that_never_succeeds_ends_in_sft_first(tmp_path):
    result = quickstart(tmp_path / "never", "--scenario", "never")
    assert result["signal"]["verdict"] == "sft_first"
    assert not result["gate"]["open"]
    assert "supervised fine-tuning" in result["stderr"]


@pytest.mark.timeout(1600)
def test_the_pretrained_model_learns(tmp_path):
    try:
        find_weights()
    except MissingError as exc:
        pytest.fail(f"make test installs it: {exc}")
    folder = tmp_path / "smollm2"
    assert_learned(quickstart(folder, "--model", "smollm2"), folder, 0.2)
