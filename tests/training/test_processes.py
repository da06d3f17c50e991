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


def launch(project, *flags, **kwargs):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(ROOT / "scripts/train.py")]
    command += [str(project / "config.yaml"), *(flags or ("--without-gate", "a test of two processes"))]
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


# A reward whose file, as it is read, lets the named processes run out of memory when they generate.
RUNS_OUT = """\
import os

if os.environ.get("RANK", "0") in {ranks!r}:
    from trl import GRPOTrainer

    def _generate(self, *args, **kwargs):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes.")

    GRPOTrainer._generate = _generate


def letters(completions, **columns):
    return [0.5] * len(completions)
"""


@pytest.mark.parametrize("ranks", ["", "1", "01"], ids=["none runs out", "the second runs out", "both run out"])
def test_a_dry_step_is_one_report_and_one_answer(two, ranks):
    (two / "rewards.py").write_text(RUNS_OUT.format(ranks=ranks))
    text = (two / "config.yaml").read_text().replace("use: exact", "use: 'rewards.py:letters'") + "hardware: {count: 2}\n"
    (two / "config.yaml").write_text(text)
    process = launch(two, "--dry-step", "--json")
    out, errors = process.communicate(timeout=300)
    assert process.returncode == (1 if ranks else 0), errors
    report = json.loads((two / "run/env-report.json").read_text())["dry_step"]
    answers = [json.loads(line) for line in out.splitlines()]
    if not ranks:
        assert [(a["rank"], a["processes"]) for a in answers] == [(0, 2)] and report["ok"] and report["rank"] == 0
        assert errors.count("written to") == 1
        return
    assert (report["ok"], report["failed_in"]) == (False, "rollout") and str(report["rank"]) in ranks
    # The launcher may end the other process first, and then there is no answer; what is answered is never a fault of ours.
    assert [a["error"]["kind"] for a in answers] == ["memory"] or ("0" not in ranks and not answers)
    assert "dry_step.py" not in errors and (answers or "in the phase 'rollout'" in errors)


# Notes what each process was asked to score and what it answered, a line a call; a process that finds its name in `dies` ends there at once.
NOTING = """\
import json, os, signal
from pathlib import Path

HERE = Path(__file__).resolve().parent


def letters(completions, trainer_state=None, **columns):
    rank, step = os.environ.get("RANK", "0"), trainer_state.global_step + 1 if trainer_state else None
    if (HERE / "dies").exists() and (HERE / "dies").read_text() == f"{rank} {step}":
        os.kill(os.getpid(), signal.SIGKILL)
    values = [sum(c.isalpha() for c in x[0]["content"]) / 16 for x in completions]
    if step and columns["row_id"][0].startswith("train:"):
        with open(HERE / f"noted-{rank}.jsonl", "a") as out:
            out.write(json.dumps({"step": step, "rows": columns["row_id"], "values": values}) + "\\n")
    return values
"""
STEPS = 12


def noting(folder, model, processes):
    """A project whose reward notes its calls, for so many processes; the batch over all of them is 32 completions."""
    folder.mkdir()
    shutil.copytree(model, folder / "model")
    write_rows(folder / "train.jsonl", sums(400))
    (folder / "rewards.py").write_text(NOTING)
    (folder / "config.yaml").write_text(
        "model: {name_or_path: model}\ndata: {train: train.jsonl}\nrewards: [{use: 'rewards.py:letters'}]\nrun: {folder: run}\n"
        f"hardware: {{count: {processes}}}\ngrpo:\n  use_cpu: true\n  bf16: false\n  per_device_train_batch_size: {32 // processes}\n"
        f"  num_generations: 8\n  max_completion_length: 8\n  max_steps: {STEPS}\n  save_steps: 4\n  learning_rate: 1.0e-3\n"
    )
    return folder


def go(folder, *flags):
    command = [sys.executable, str(ROOT / "scripts/train.py"), str(folder / "config.yaml"), "--without-gate", "a test of two processes"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*command, "--launch", "--go", *flags], env=environment, capture_output=True, text=True, timeout=400)


def noted(folder):
    """By step: the rows and the values of all processes together; the last call of a step counts."""
    found = {}
    for path in sorted(folder.glob("noted-*.jsonl")):
        for line in map(json.loads, path.read_text().splitlines()):
            found.setdefault(line["step"], {})[path.name] = line
    together = {}
    for step, calls in found.items():
        rows, values = ([x for call in calls.values() for x in call[part]] for part in ("rows", "values"))
        together[step] = sorted(rows), values
    return together


@pytest.fixture(scope="module")
def whole(tmp_path_factory, untaught_model):
    folder = noting(tmp_path_factory.mktemp("whole") / "two", untaught_model, 2)
    done = go(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_two_processes_take_the_prompts_that_one_would_and_score_each_completion_once(whole, untaught_model, tmp_path):
    alone = noting(tmp_path / "one", untaught_model, 1)
    done = go(alone)
    assert done.returncode == 0, done.stderr
    two, one = noted(whole), noted(alone)
    assert {step: rows for step, (rows, _) in two.items()} == {step: rows for step, (rows, _) in one.items()}
    assert all(len(rows) == 32 and len(set(rows)) == 4 for rows, _ in two.values())
    calls = [len(path.read_text().splitlines()) for path in sorted(whole.glob("noted-*.jsonl"))]
    assert calls == [STEPS, STEPS]
    lines = [json.loads(line) for line in (whole / "run/train/logs/progress.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    for line in lines:
        values = two[line["step"]][1]
        assert line["reward"] == pytest.approx(sum(values) / len(values), abs=1e-6)


def test_a_process_that_is_killed_ends_the_run_and_it_goes_on_as_if_nothing_had_happened(whole, untaught_model, tmp_path):
    folder = noting(tmp_path / "two", untaught_model, 2)
    (folder / "dies").write_text("1 7")
    done = go(folder)
    assert done.returncode not in (0, 2, 3), done.stderr
    assert "SIGKILL" in done.stderr
    assert steps(folder) == [1, 2, 3, 4, 5, 6] and not (folder / "run/train/result.json").exists()
    (folder / "dies").unlink()
    done = go(folder, "--resume")
    assert done.returncode == 0, done.stderr
    assert "going on from checkpoint-4" in done.stderr
    assert steps(folder) == list(range(1, STEPS + 1))
    assert noted(folder) == noted(whole)


LEAVING = """
import atexit, os, sys, threading, time
from grpo_rlvr.training.process import leave_together
import torch.distributed as dist

class Teardown:
    def __del__(self, write=os.write):
        write(1, b"teardown")

kept = sys.modules["kept"] = Teardown()
atexit.register(print, "handler", flush=False)
threading.Thread(target=lambda: (time.sleep(0.3), print("thread"))).start()
if sys.argv[1] == "several":
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0?rank=0&world_size=1")
leave_together(5)
sys.exit(5)
"""


@pytest.mark.parametrize(("processes", "ends"), [("several", "thread\nhandler\n"), ("one", "thread\nhandler\nteardown")])
def test_a_process_of_several_leaves_with_its_code_and_without_the_teardown_that_aborts(processes, ends):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run([sys.executable, "-c", LEAVING, processes], capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout) == (5, ends), done.stderr
