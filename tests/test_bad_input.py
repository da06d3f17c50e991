"""What people get wrong, through the scripts: one clear error, the right exit code, nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, sums, write_rows

REASON = ["--without-gate", "trying bad input"]


def script(name, *arguments, **kwargs):
    command = [sys.executable, str(ROOT / "scripts" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **kwargs)


def change(project, old, new):
    path = project / "config.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def unreadable_gold(project):
    rows = sums(12)
    rows[3]["answer"] = rows[7]["answer"] = ""
    write_rows(project / "train.jsonl", rows)


BAD = {
    "no config": (lambda p: (p / "config.yaml").unlink(), ["config.yaml"]),
    "not yaml": (lambda p: (p / "config.yaml").write_text("model: [\n"), ["line"]),
    "unknown keys": (
        lambda p: change(p, "rewards:", "modle: x\nrewards:"),
        ["modle", "model"],
    ),
    "wrong types": (lambda p: change(p, "max_steps: 4", "max_steps: many\n  learning_rate: fast"), ["max_steps", "many", "learning_rate", "fast"]),
    "another TRL": (
        lambda p: change(p, "max_steps: 4", "max_prompt_length: 512\n  warmup_ratio: 0.1"),
        ["max_prompt_length", "warmup_ratio", "warmup_steps", "1.16"],
    ),
    "a missing column": (lambda p: write_rows(p / "train.jsonl", [{"prompt": "1+1", "gold": "2"}]), ["'answer'", "gold"]),
    "no rows": (lambda p: (p / "train.jsonl").write_text(""), ["no rows"]),
    "no data file": (lambda p: (p / "train.jsonl").unlink(), ["train.jsonl"]),
    "unreadable gold": (unreadable_gold, ["rows 3, 7"]),
    "an unknown reward": (lambda p: change(p, "use: exact", "use: exakt"), ["exakt", "exact"]),
    "a reward file that is not there": (lambda p: change(p, "use: exact", "use: 'mine.py:f'"), ["mine.py"]),
    "no model folder": (lambda p: None, ["there is no folder", "model"]),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("command", [["train.py", "--check", *REASON], ["inspect_rewards.py", "run"]], ids=["train", "inspect"])
def test_bad_input_is_refused_with_everything_named(project, case, command):
    spoil, words = BAD[case]
    spoil(project)
    name, *flags = command
    position = [flags[0], project / "config.yaml"] if name == "inspect_rewards.py" else [project / "config.yaml", *flags]
    done = script(name, *position, "--json")
    assert done.returncode == 2, done.stderr
    error = json.loads(done.stdout)["error"]
    for word in words:
        assert word in error["message"] + error["fix"] + json.dumps(error["problems"]), error
    assert "Traceback" not in done.stderr
    assert not list(project.glob("run/**/*.json*"))


@pytest.mark.model
def test_check_refuses_golds_that_their_reward_refuses(project, untaught_model):
    shutil.copytree(untaught_model, project / "model")
    rows = sums(40)
    rows[3]["answer"] = rows[7]["answer"] = "a<answer>b"
    write_rows(project / "train.jsonl", rows)
    done = script("train.py", project / "config.yaml", "--check", *REASON, "--json")
    assert done.returncode == 2, done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "gold" and "data.train rows 3, 7: its own gold is not accepted" in error["message"]
    write_rows(project / "train.jsonl", sums(40))
    assert script("train.py", project / "config.yaml", "--check", *REASON, "--json").returncode == 0


@pytest.fixture
def read(project, untaught_model):
    """A project whose recorded completions were inspected and read: a right and a wrong one for each prompt."""
    shutil.copytree(untaught_model, project / "model")
    rows = [
        {"prompt_index": i, "completion": [{"role": "assistant", "content": f"<answer>{n}</answer>"}], "finish": "stop"}
        for i in range(40)
        for n in (i + 1, i + 50)
    ]
    write_rows(project / "recorded.jsonl", rows)
    done = script("inspect_rewards.py", "run", project / "config.yaml", "--completions", project / "recorded.jsonl")
    assert done.returncode == 0, done.stderr
    label(project)
    return project


def label(project, kind="human"):
    from grpo_rlvr.config import load_config
    from grpo_rlvr.inspection.labels import append_label
    from grpo_rlvr.inspection.select import load_selection

    folder = load_config(project / "config.yaml").inspection_folder
    for sample in load_selection(folder):
        right = sample["completion"][-1]["content"] == f"<answer>{sample['columns']['answer']}</answer>"
        append_label(folder, sample["sample_id"], "pass" if right else "fail", "a test", kind)


def test_the_straight_line_opens_the_gate_and_training_takes_it(read):
    done = script("inspect_rewards.py", "gate", read / "config.yaml", "--json")
    assert done.returncode == 0, done.stderr
    gate = json.loads(done.stdout)
    assert gate["open"] and gate["reviewer_kind"] == "human" and gate["counts"]["read"] == 60
    assert script("train.py", read / "config.yaml", "--check").returncode == 0


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda p: change(p, "use: exact", "use: exact, weight: 2.0"), "reward settings changed"),
        (lambda p: change(p, "- {use: exact}", "- {use: exact}\n  - {use: 'mine.py:f'}"), "mine.py"),
        (lambda p: write_rows(p / "train.jsonl", sums(41)), "training data changed"),
        (lambda p: (p / "model/generation_config.json").write_text("{}"), "model changed: generation_config.json"),
    ],
    ids=["settings", "code", "data", "model"],
)
def test_a_gate_for_something_else_is_refused_and_says_what_changed(read, spoil, words):
    (read / "mine.py").write_text("def f(completions):\n    return [0.0 for _ in completions]\n")
    assert script("inspect_rewards.py", "gate", read / "config.yaml").returncode == 0
    spoil(read)
    done = script("train.py", read / "config.yaml", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "gate" and words in error["message"] and "inspect_rewards.py run" in error["fix"]
    assert not (read / "run/train").exists()


def test_a_half_written_label_is_named_with_its_line(read):
    with open(read / "run/inspection/labels.jsonl", "a", encoding="utf-8") as out:
        out.write('{"schema": "grpo-rlvr/label/1", "sample_')
    done = script("inspect_rewards.py", "gate", read / "config.yaml", "--json")
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert "61" in json.dumps(error["problems"]) and "review" in error["fix"]
    assert not (read / "run/inspection/gate.json").exists()


def test_labels_of_a_kind_that_the_config_does_not_name_open_nothing(read):
    (read / "run/inspection/labels.jsonl").unlink()
    label(read, kind="agent")
    done = script("inspect_rewards.py", "gate", read / "config.yaml")
    assert done.returncode == 1
    assert "60 by agent do not count" in done.stderr


def test_review_needs_a_person_at_a_terminal(read):
    done = script("inspect_rewards.py", "review", "--terminal", read / "config.yaml", stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and "a person must read" in done.stderr


def test_rows_taken_out_shut_a_gate_on_recorded_completions(read):
    write_rows(read / "train.jsonl", [{**row, "answer": "7"} for row in sums(32, first=8)])
    done = script("inspect_rewards.py", "gate", read / "config.yaml")
    assert done.returncode == 1
    assert "training rows that they answer changed" in done.stderr


MISSING = {"wandb": "report_to: wandb", "bitsandbytes": "optim: paged_adamw_8bit", "galore-torch": "optim: galore_adamw"}


@pytest.mark.parametrize("package", MISSING)
def test_a_package_that_a_setting_needs_is_named_before_anything_is_written(project, untaught_model, package):
    shutil.copytree(untaught_model, project / "model")
    change(project, "max_steps: 4", f"max_steps: 4\n  {MISSING[package]}")
    done = script("train.py", project / "config.yaml", *REASON, "--json")
    assert done.returncode == 3, done.stderr
    error = json.loads(done.stdout)["error"]
    assert package in error["message"] and f"pip install {package}" in error["fix"]
    assert not (project / "run/train/run.json").exists()


@pytest.mark.parametrize("command", [["train.py", "--check", *REASON], ["inspect_rewards.py", "run"]], ids=["train", "inspect"])
@pytest.mark.parametrize("module", ["yaml", "rich"])
def test_a_python_without_the_packages_is_told_what_to_install(project, command, module):
    hide = f"lambda n, p=None: None if n == {module!r} else f(n, p)"
    block = f"import sys; sys.modules[{module!r}] = None; import importlib.util as u; f = u.find_spec; u.find_spec = {hide}"
    name, *flags = command
    arguments = [flags[0], str(project / "config.yaml")] if name == "inspect_rewards.py" else [str(project / "config.yaml"), *flags]
    path = str(ROOT / "scripts" / name)
    run = f"sys.argv = {[path, *arguments, '--json']!r}; sys.path.insert(0, {str(ROOT / 'scripts')!r}); runpy.run_path({path!r}, run_name='__main__')"
    code = f"{block}; import runpy; {run}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["error"]["kind"] == "missing"


@pytest.mark.parametrize("version", ["1.15.0", "1.17.0"])
def test_another_trl_is_named_with_the_range_that_works(project, version):
    folder = project / "site" / f"trl-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: trl\nVersion: {version}\n", encoding="utf-8")
    done = script("train.py", project / "config.yaml", *REASON, "--json", env={**os.environ, "PYTHONPATH": str(folder.parent)})
    assert done.returncode == 3, done.stderr
    error = json.loads(done.stdout)["error"]
    assert f"trl {version} is installed, and this works with >=" in error["message"]
    assert "pip install -c SKILL/constraints.txt 'trl>=" in error["fix"]
    assert "Traceback" not in done.stderr and not (project / "run").exists()
