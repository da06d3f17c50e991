"""references/lifecycle.md: what it names is there, and the way it describes is walked from `init` to the result."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, write_rows
from grpo_rlvr.diagnosis.rules import ORDER
from test_bad_input import label, script

PAGE = (ROOT / "references" / "lifecycle.md").read_text(encoding="utf-8")
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in [*(ROOT / "scripts").rglob("*.py"), *(ROOT / "templates").glob("*.*")])


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_it_says_at_its_top_when_to_read_it():
    assert PAGE.splitlines()[2].startswith("Read this when")


def test_each_name_in_it_is_one_of_the_code():
    names = set(re.findall(r"`([a-z][a-z_-]+)`", PAGE)) - {"human", "next"}
    assert len(names) > 40
    assert sorted(name for name in names if f'"{name}"' not in SOURCE and f"{name}:" not in SOURCE) == []


def test_each_rule_of_the_triage_is_one_of_diagnose():
    text = section("When it fails")
    rules = set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", text)) - {"reward_failures", "dropped_share"}
    assert len(rules) > 15 and rules <= set(ORDER)
    # The classes of a triage made for SFT first, in its order; then what only GRPO has.
    classes = re.findall(r"^\d\. \*\*(.+?)\*\*", text, re.MULTILINE)
    assert [name.split()[0] for name in classes] == [
        "Environment",
        "Memory",
        "Divergence",
        "Reward",
        "Dead",
        "Truncation",
        "Entropy",
        "Sampler",
        "Rewards",
    ]


def test_each_command_s_flags_are_there():
    used: dict[tuple[str, str], set[str]] = {}
    for name, rest in re.findall(r"(\w+\.py)((?:[ \n]+(?![#|])[^`\n#]+)?)", PAGE):
        sub = next((word for word in rest.split()[:1] if word in ("init", "run", "review", "gate")), "")
        used.setdefault((name, sub), set()).update(re.findall(r"--[a-z-]+", rest))
    used[("train.py", "init")] |= set(re.findall(r"`(--[a-z-]+)`", section("What goes in and what comes out"))) - {"--merge", "--json"}
    assert ("train.py", "") in used and ("inspect_rewards.py", "run") in used
    for (name, sub), flags in used.items():
        if flags:
            shown = script(name, *([sub] if sub else []), "--help").stdout
            assert sorted(flag for flag in flags if flag not in shown) == [], (name, sub)


@pytest.fixture
def run(project, untaught_model):
    """A run as `init` writes it, made small enough for a CPU; its recorded completions were inspected and read."""
    shutil.copytree(untaught_model, project / "model")
    folder = project / "runs" / "a"
    flags = ["--model", project / "model", "--data", project / "train.jsonl", "--eval", project / "eval.jsonl", "--reward", "exact"]
    assert script("train.py", "init", folder, *flags).returncode == 0
    config = folder / "train" / "config.yaml"
    text = config.read_text(encoding="utf-8")
    for old, new in (("max_completion_length: 512", "max_completion_length: 8"), ("bf16: true", "bf16: false"), ("# use_cpu", "use_cpu")):
        assert old in text
        text = text.replace(old, new)
    config.write_text(text.replace("num_train_epochs: 1", "max_steps: 2"), encoding="utf-8")
    rows = [
        {"prompt_index": i, "completion": [{"role": "assistant", "content": f"<answer>{n}</answer>"}], "finish": "stop"}
        for i in range(40)
        for n in (i + 1, i + 50)
    ]
    write_rows(project / "recorded.jsonl", rows)
    done = script("inspect_rewards.py", "run", config, "--completions", project / "recorded.jsonl")
    assert done.returncode == 0, done.stderr
    label(folder / "train")
    return folder


@pytest.mark.model
def test_the_whole_way(run):
    config = run / "train" / "config.yaml"
    assert script("inspect_rewards.py", "gate", config).returncode == 0
    gate = json.loads((run / "inspection" / "gate.json").read_text(encoding="utf-8"))
    table = section("Evidence that the inspection rule ran").partition("| in `gate.json`")[2].partition("```")[0]
    named = {word for line in table.splitlines() if line.startswith("| `") for word in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert len(named) == 9 and named <= gate.keys()
    assert {"read", "needed", "disagreements"} <= gate["counts"].keys() and "`needed` (50" in PAGE and gate["counts"]["needed"] == 50

    command = [sys.executable, str(run / "train" / "train.py"), str(config)]
    environment = {**os.environ, "GRPO_RLVR_SKILL": str(ROOT)}
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (run / "train/logs/progress.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [list(line)[:5] for line in lines] == [["step", "loss", "lr", "mem_gb", "temp_c"]] * 2
    assert [json.loads(line) for line in done.stdout.splitlines()] == lines
    result = json.loads((run / "train/result.json").read_text(encoding="utf-8"))
    named = set(re.findall(r"`(\w+)`", section("Result and promotion"))) - {"result"}
    assert named <= {*result, *result["held_out"]} and {"finished", "held_out", "gate", "ci95"} <= named
    assert str(run / "train" / "model") in done.stderr and ".." not in done.stderr

    environment = script("check_environment.py", config, "--no-hub", "--json")
    assert json.loads((run / "env-report.json").read_text(encoding="utf-8"))["verdict"] in PAGE, environment.stderr
