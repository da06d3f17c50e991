"""One worst-case step beside the plan, and what a run says that is out of memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from grpo_rlvr.config import load_config
from grpo_rlvr.errors import CheckFailed, MissingError, Problem
from grpo_rlvr.training.meter import Meter

# As torch, its allocator on a CPU, and vLLM 0.22 and later say it.
CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.52 GiB of which 1.20 GiB is free."
SAID = [
    RuntimeError("[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes."),
    ValueError("No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."),
    ValueError(
        "Free memory on device cuda:0 (20.1/23.5 GiB) on startup is less than desired GPU memory utilization (0.9, 21.2 GiB). Decrease GPU"
        " memory utilization or reduce GPU memory used by other processes."
    ),
    ValueError("To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than ..."),
    MemoryError(),
]


class Probe:
    """A device whose use is written down."""

    device, method = "cpu", "by hand"

    def __init__(self) -> None:
        self.in_use, self.top = 0, 0

    def use(self, amount: int) -> None:
        self.in_use, self.top = amount, max(self.top, amount)

    def now(self) -> int:
        return self.in_use

    def reset(self) -> None:
        self.top = self.in_use

    def peak(self) -> dict[str, int]:
        return {"peak": self.top}


def test_a_phase_inside_another_belongs_to_itself_alone():
    probe = Probe()
    meter = Meter(probe)
    probe.use(500)
    probe.use(1)
    with meter.phase("training step"):
        probe.use(5)
        with meter.phase("rollout"):
            probe.use(90)
            probe.use(7)
        probe.use(20)
    assert {k: v["peak"] for k, v in meter.peaks.items()} == {"training step": 20, "rollout": 90}
    meter.forget()
    assert meter.peaks == {}
    with pytest.raises(KeyError), meter.phase("training step"), meter.phase("log-probs"):
        raise KeyError
    assert meter.failed == "log-probs"


def test_the_gpus_counters_are_read_and_reset(monkeypatch):
    import torch
    from grpo_rlvr.training.meter import CudaProbe

    asked = []
    values = {"synchronize": None, "reset_peak_memory_stats": None, "memory_allocated": 3, "max_memory_allocated": 7, "max_memory_reserved": 9,
              "mem_get_info": (10, 50)}  # fmt: skip
    for name, value in values.items():
        monkeypatch.setattr(torch.cuda, name, lambda name=name, value=value: asked.append(name) or value)
    meter = Meter(CudaProbe())
    with meter.phase("rollout"):
        assert meter.probe.now() == 3
    assert meter.peaks == {"rollout": {"peak": 7, "reserved": 9, "device_in_use": 40}} and asked.count("reset_peak_memory_stats") == 2


@pytest.fixture
def on_a_4090(monkeypatch):
    from grpo_rlvr.memory.hardware import find_gpu
    from grpo_rlvr.training import memory_here

    monkeypatch.setattr(memory_here, "this_gpu", lambda config: find_gpu("rtx-4090"))
    monkeypatch.setattr(memory_here, "device_type", lambda config: "cuda")


def fail(project: Path, exc: Exception, text: str = "") -> Problem:
    from grpo_rlvr.training.process import explained_failures

    if text:
        (project / "config.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(MissingError) as caught, explained_failures(load_config(project / "config.yaml")):
        raise exc
    assert caught.value.kind == "memory" and caught.value.exit_code == 3
    return caught.value.problems[0]


LARGE = """\
model: {name_or_path: Qwen/Qwen2.5-7B-Instruct}
data: {train: train.jsonl, prompt_tokens: 512}
rewards: [{use: exact}]
grpo: {per_device_train_batch_size: 8, max_completion_length: 1024}
"""


@pytest.mark.parametrize("exc", [RuntimeError(CUDA), *SAID], ids=lambda e: str(e)[:20] or "MemoryError")
def test_out_of_memory_ends_with_the_plans_view_and_the_next_lever(project, on_a_4090, exc):
    problem = fail(project, exc, LARGE)
    assert "out of memory" in problem.message and "(RTX 4090, 23.5 GiB) says NO: training step" in problem.message
    assert "optimizer 56.7" in problem.message
    assert "lora" in problem.fix and "dtype: bfloat16" in problem.fix and "--fit" in problem.fix


def test_the_phase_is_that_of_the_traceback(project, on_a_4090):
    import torch
    from grpo_rlvr.training.memory_here import is_out_of_memory, phase_of

    def sync_weights():
        raise torch.OutOfMemoryError(CUDA)

    def _generate():
        sync_weights()

    try:
        _generate()
    except RuntimeError as exc:
        assert is_out_of_memory(exc) and phase_of(exc) == "weight sync"
        assert "in the phase 'weight sync'" in fail(project, exc, LARGE).message


def test_a_run_that_should_fit_is_told_what_the_plan_does_not_see(project, on_a_4090):
    problem = fail(project, RuntimeError(CUDA), LARGE.replace("Qwen2.5-7B", "Qwen2.5-0.5B").replace("1024", "256"))
    assert "says FITS" in problem.message and "other processes" in problem.fix and "per_device_train_batch_size: 4" in problem.fix


def test_vllms_refusal_names_the_share_that_would_do(project, on_a_4090):
    text = LARGE.replace("Qwen2.5-7B", "Qwen2.5-0.5B").replace("grpo: {", "grpo: {use_vllm: true, vllm_gpu_memory_utilization: 0.95, ")
    problem = fail(project, SAID[2], text)
    assert "vllm-start" in problem.message and "vllm_gpu_memory_utilization between" in problem.fix


def test_without_a_shape_the_failure_is_still_explained(project):
    problem = fail(project, RuntimeError(CUDA))
    assert "no plan" in problem.message and "per_device_train_batch_size" in problem.fix


@pytest.mark.parametrize("exc", [RuntimeError("shape mismatch"), ValueError("a memory of things past"), KeyError("x")])
def test_other_failures_stay_what_they_are(project, exc):
    from grpo_rlvr.training.process import explained_failures

    with pytest.raises(type(exc)), explained_failures(load_config(project / "config.yaml")):
        raise exc


def test_the_report_keeps_the_part_of_the_other(tmp_path):
    from grpo_rlvr.env_report import write_part

    path = tmp_path / "env-report.json"
    path.write_text("{broken", encoding="utf-8")
    write_part(path, "environment", {"verdict": "ready"})
    write_part(path, "dry_step", {"ok": True})
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["schema"] == "grpo-rlvr/env-report/1" and report["environment"]["verdict"] == "ready" and report["dry_step"]["ok"] is True


@pytest.fixture
def ready(project: Path, untaught_model: Path) -> Path:
    shutil.copytree(untaught_model, project / "model")
    rows = [{"prompt": "1" * n + "+1=?", "answer": "2"} for n in (1, 30, 3, *[2] * 20)]
    (project / "train.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    (project / "eval.jsonl").write_text(json.dumps({"prompt": "7+1=?", "answer": "8"}) + "\n", encoding="utf-8")
    text = (project / "config.yaml").read_text(encoding="utf-8")
    (project / "config.yaml").write_text(text.replace("max_steps: 4", "beta: 0.05\n  steps_per_generation: 2\n  max_steps: 4"), encoding="utf-8")
    return project


@pytest.mark.model
def test_the_dry_step_measures_the_worst_case_and_what_is_held_is_what_is_planned(ready):
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), str(ready / "config.yaml"), "--dry-step", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answer, report = json.loads(done.stdout), json.loads((ready / "run/env-report.json").read_text(encoding="utf-8"))["dry_step"]
    assert answer["schema"] == "grpo-rlvr/dry-step/1" and {k: v for k, v in report.items() if k != "at"}.items() <= answer.items()
    # The longest prompt and the longest completion; two updates to a generation, so the third is the first with a rollout and states.
    assert (answer["prompt_tokens"], answer["completion_tokens"], answer["steps_run"], answer["completions_a_generation"]) == (34, 8, 3, 32)
    assert [p["phase"] for p in answer["phases"]] == ["start", "rollout", "log-probs", "training step", "optimizer step"]
    held = {t["term"]: t for t in answer["terms"]}
    for term in ("weights", "reference", "gradients", "optimizer"):
        assert held[term]["planned_gib"] == pytest.approx(held[term]["measured_gib"], rel=0.05, abs=1e-4), term
    shown = done.stderr.partition("one worst-case step")[2].splitlines()
    assert "on a CPU" in done.stderr and max(len(line) for line in shown if str(ready) not in line) <= 90
    assert not (ready / "run/train").exists()


@pytest.mark.model
def test_a_dry_step_out_of_memory_is_a_no_with_its_phase(ready, monkeypatch):
    import torch
    from grpo_rlvr.data import load_rows
    from grpo_rlvr.rewards import build_rewards
    from grpo_rlvr.training import launch
    from grpo_rlvr.training.run_folder import RunFolder
    from trl import GRPOTrainer

    def no_room(self, *args, **kwargs):
        raise torch.OutOfMemoryError(CUDA)

    monkeypatch.setattr(GRPOTrainer, "compute_loss", no_room)
    text = (ready / "config.yaml").read_text(encoding="utf-8").replace("model: {name_or_path: model}", "model: {name_or_path: model, lora: {r: 4}}")
    (ready / "config.yaml").write_text(text, encoding="utf-8")
    config = load_config(ready / "config.yaml")
    settings = launch.settings_for(config, build_rewards(config), RunFolder(config.run_folder), False)
    with pytest.raises(CheckFailed, match="in the phase 'training step'") as caught:
        launch.dry_step(config, settings, load_rows(config, "train"), launch.model_path(config))
    assert caught.value.exit_code == 1
    report = json.loads((ready / "run/env-report.json").read_text(encoding="utf-8"))["dry_step"]
    assert report["ok"] is False and report["failed_in"] == "training step" and "the plan for this device" in report["message"]
