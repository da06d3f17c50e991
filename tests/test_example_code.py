"""The tasks of examples/code: their form, that each reference solution passes its tests, and that nothing trivial does.

The solutions are ours, so they are run directly, in a process of their own that is stopped after a while. What a model
wrote is never run like this.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from grpo_rlvr.config import load_config
from grpo_rlvr.data import load_rows

FOLDER = ROOT / "examples" / "code"
FILES = {"tasks.jsonl": 40, "held_out.jsonl": 10}
KINDS = {"tasks.jsonl": {"entry_point": 20, "stdin_stdout": 12, "asserts": 8}, "held_out.jsonl": {"entry_point": 5, "stdin_stdout": 3, "asserts": 2}}


def read(name: str) -> list[dict]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def kind(tests: dict) -> str:
    return next(k for k in ("entry_point", "stdin_stdout", "asserts") if k in tests)


@pytest.mark.parametrize("name", FILES)
def test_rows_have_the_form_that_the_reward_reads(name):
    rows = read(name)
    assert len(rows) == FILES[name]
    counted = [kind(row["tests"]) for row in rows]
    assert {k: counted.count(k) for k in set(counted)} == KINDS[name]
    for row in rows:
        assert set(row) == {"prompt", "tests", "solution"}
        assert [m["role"] for m in row["prompt"]] == ["user"] and "one Python code block" in row["prompt"][0]["content"]
        tests = row["tests"]
        if "cases" in tests:
            assert set(tests) == {"entry_point", "cases"} and 4 <= len(tests["cases"]) <= 8
            assert all({"args", "expected"} <= set(case) <= {"args", "kwargs", "expected"} for case in tests["cases"])
            assert f"`{tests['entry_point']}`" in row["prompt"][0]["content"]
        elif "asserts" in tests:
            assert set(tests) == {"asserts"} and sum(isinstance(n, ast.Assert) for n in ast.walk(ast.parse(tests["asserts"]))) >= 4
        else:
            assert set(tests) == {"stdin_stdout"} and 4 <= len(tests["stdin_stdout"]) <= 8
            assert all(set(case) == {"stdin", "stdout"} for case in tests["stdin_stdout"])


def test_no_task_is_both_trained_on_and_held_out():
    prompts = [row["prompt"][0]["content"] for name in FILES for row in read(name)]
    assert len(set(prompts)) == len(prompts)


def test_the_config_reads_them():
    config = load_config(FOLDER / "config.yaml")
    assert len(load_rows(config, "train")) == 40 and len(load_rows(config, "eval")) == 10
    assert [section.use for section in config.rewards] == ["code"]


@pytest.mark.parametrize("name", FILES)
def test_solutions_pass_and_stubs_do_not(name):
    done = subprocess.run(
        [sys.executable, "-I", ROOT / "tests" / "direct_run.py", FOLDER / name], capture_output=True, text=True, timeout=120, cwd=FOLDER
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert report["solutions"] == FILES[name] and report["stubs"] > 8 * FILES[name]
    assert report["failing_solutions"] == [] and report["passing_stubs"] == []


# ---- the example as a project
@pytest.fixture
def example(tmp_path: Path, untaught_model: Path, sandbox_here) -> Path:
    """A copy of the example with a model that is there, and settings for two steps on a CPU."""
    folder = tmp_path / "code"
    shutil.copytree(FOLDER, folder)
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    config["model"]["name_or_path"] = str(untaught_model)
    config["grpo"] |= {
        "use_cpu": True, "bf16": False, "max_steps": 2, "max_completion_length": 8, "per_device_train_batch_size": 4, "num_generations": 4,
        "gradient_accumulation_steps": 1, "save_strategy": "no",
    }  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return folder


def train(folder: Path, *flags: str) -> tuple[int, dict, str]:
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), str(folder / "config.yaml"), "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.model
def test_the_check_accepts_the_example_but_for_the_gate_and_two_steps_run(example: Path):
    code, answer, said = train(example, "--check")
    assert code == 1 and answer["error"]["kind"] == "gate", said
    code, answer, said = train(example, "--without-gate", "a test of two steps")
    assert code == 0, said
    lines = [json.loads(line) for line in (example / "runs/code/train/logs/progress.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines if "reward" in line] == [1, 2]


@pytest.mark.model
def test_the_check_refuses_a_task_whose_solution_fails_its_tests(example: Path):
    rows = [json.loads(line) for line in (example / "tasks.jsonl").read_text(encoding="utf-8").splitlines()]
    rows[3]["solution"] = rows[4]["solution"]
    (example / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    code, answer, _ = train(example, "--check")
    assert code == 2 and "row 3" in answer["error"]["message"] and "can never be earned" in answer["error"]["message"]
