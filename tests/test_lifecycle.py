"""references/lifecycle.md: what it names is there, and the way it describes is walked from `init` to the result."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, sums, write_rows
from grpo_rlvr.diagnosis.rules import ORDER
from grpo_rlvr.inspection.run import run_inspection
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


# ---- SFT first
@pytest.mark.model
@pytest.mark.parametrize("chat", [True, False])
def test_the_block_of_sft_first_teaches_what_grpo_will_ask(tmp_path, untaught_model, chat):
    from grpo_rlvr.config import load_config
    from grpo_rlvr.data import load_rows
    from grpo_rlvr.inspection.backends.local import load_tokenizer
    from grpo_rlvr.inspection.backends.tokens import TokenForm

    names: dict = {"__name__": "document"}
    exec(re.search(r"^```python\n(def sft.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1], names)
    write_rows(tmp_path / "train.jsonl", [row if chat else {**row, "prompt": row["prompt"][0]["content"]} for row in sums(40)])
    system = "\n  system_prompt: add up" if chat else ""
    text = (
        f"model: {{name_or_path: {untaught_model}}}\ndata:\n  train: train.jsonl\n  eval_split: 0.25{system}\nrewards: [{{use: exact}}]\n"
        "grpo: {num_generations: 4, max_completion_length: 8, use_cpu: true, bf16: false}\ninspection: {prompts: 4, read: 4, min_read: 4}\n"
    )
    (tmp_path / "config.yaml").write_text(text)
    steps = {"max_steps": 30, "per_device_train_batch_size": 8, "learning_rate": 4e-3, "logging_steps": 1, "disable_tqdm": True}
    trainer = names["sft"](tmp_path / "config.yaml", tmp_path / "sft", lambda row: f"<answer>{row['answer']}</answer>", **steps)
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert len(losses) == 30 and losses[-1] < 0.6 * losses[0]

    config = load_config(tmp_path / "config.yaml")
    rows, tokenizer = load_rows(config, "train"), load_tokenizer(config)
    asked = TokenForm(tokenizer, config.sampling).encode([row["prompt"] for row in rows])
    assert len(trainer.train_dataset) == len(rows) == 30  # those held out are not taught
    for row, ids, taught in zip(rows, asked, trainer.train_dataset, strict=True):
        assert list(taught["input_ids"])[: len(ids)] == ids
        learned = [token for token, label in zip(taught["input_ids"], taught["labels"], strict=True) if label != -100]
        assert tokenizer.decode(learned) == f"<answer>{row['answer']}</answer><eos>"  # the completion alone, with the token that ends it
    # What was saved is a model for the config.
    (tmp_path / "config.yaml").write_text(text.replace(str(untaught_model), "sft"))
    result = run_inspection(load_config(tmp_path / "config.yaml"), quiet=True)
    assert result["signal"]["truncated_share"] < 0.5 and not any("untrained" in note for note in result["signal"]["notes"])
