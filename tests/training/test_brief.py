"""What `train.py init --brief` reads of a training brief, and what it says that it could not read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import sums, write_rows
from grpo_rlvr.config import load_config
from grpo_rlvr.errors import UserError
from grpo_rlvr.training import init
from grpo_rlvr.training.brief import Brief, read_brief

HEADED = """\
# Training Brief: sums

## Goal
The model adds wrongly; prompts and/or answers are short.

## Chosen Method
{method}

Why: the answers can be checked, so not SFT or DPO.

## Base Model
8B-class
{model}

## Eval Baseline
`eval/baseline-qwen3-8b.json`

## Dataset Expectation
- Source: {data}
- Size floor: see `references/data.md`

## Memory Budget
{memory}

## Success Criteria
20 points on `eval/goldens.jsonl`

## Risks
none
"""
GOOD = {
    "method": "GRPO+RLVR", "model": "Qwen3-8B (`Qwen/Qwen3-8B`, verified 2026-10-01)", "data": "traces, `data/train.jsonl`",
    "memory": "bf16 LoRA r=32 on one H100 80GB, by memory_plan.py",
}  # fmt: skip
READ = {"model": "Qwen/Qwen3-8B", "data": "data/train.jsonl", "gpu": "h100-80gb", "lora": 32, "variant": None}


@pytest.fixture
def brief(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data" / "train.jsonl", sums(40))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(init, "next_command", lambda folder: "the check")

    def write(**changes: str) -> Path:
        path = tmp_path / "training-brief.md"
        path.write_text(HEADED.format(**{**GOOD, **changes}), encoding="utf-8")
        return path

    return write


def values(found: Brief) -> dict:
    return {name: getattr(found, name) for name in READ}


def test_a_brief_is_read(brief):
    found = read_brief(brief())
    assert values(found) == READ and found.unread == ()


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        ({"method": "**GRPO+RLVR**, DAPO"}, {"variant": "dapo"}),
        ({"method": "Dr. GRPO"}, {"variant": "dr_grpo"}),
        ({"model": "https://huggingface.co/owner/model-8B"}, {"model": "owner/model-8B"}),
        ({"model": "Qwen/Qwen3-8B and/or nothing else"}, {"model": "Qwen/Qwen3-8B"}),
        ({"data": "`owner/sums:train`"}, {"data": "owner/sums:train"}),
        ({"data": "data/train.jsonl (data/old.jsonl is gone)"}, {"data": "data/train.jsonl"}),
        ({"memory": "all weights in float32, H200"}, {"gpu": "h200", "lora": None}),
        ({"memory": "LoRA on a DGX Spark"}, {"gpu": "dgx-spark", "lora": 16}),
    ],
)
def test_other_ways_to_write_it(brief, changes, read):
    found = read_brief(brief(**changes))
    assert values(found) == {**READ, **read} and found.unread == ()


@pytest.mark.parametrize(
    ("changes", "field", "why", "flag"),
    [
        ({"model": "an 8B or 14B model"}, "Base Model", "names no hub name", "--model"),
        ({"model": "`Qwen/Qwen3-8B` or `Qwen/Qwen3-4B`"}, "Base Model", "names 2 of them (Qwen/Qwen3-8B, Qwen/Qwen3-4B)", "--model"),
        ({"data": "traces, mixed/synthetic"}, "Dataset Expectation", "names no data file that is there", "--data"),
        ({"data": "data/missing.jsonl"}, "Dataset Expectation", "names no data file that is there", "--data"),
        ({"memory": "LoRA r=32, see the worksheet"}, "Memory Budget", "names no GPU", "--gpu"),
        ({"memory": "LoRA r=32 on an A100 or an H100"}, "Memory Budget", "names 2 of them (a100-80gb, h100-80gb)", "--gpu"),
        ({"memory": "H100, LoRA rejected, all weights"}, "Memory Budget", "whether LoRA is meant", "--lora"),
        ({"memory": "H100, QLoRA"}, "Memory Budget", "QLoRA", "--lora"),
        ({"method": "reinforcement"}, "Chosen Method", "names no method", "write"),
        ({"method": "DAPO or GSPO"}, "Chosen Method", "several variants (dapo, gspo)", "--variant"),
    ],
)
def test_what_cannot_be_read_is_said_and_not_guessed(brief, changes, field, why, flag):
    found = read_brief(brief(**changes))
    (problem,) = found.unread
    assert (problem.where, problem.fix.split()[0]) == (field, flag) and why in problem.message
    name = {"--model": "model", "--data": "data", "--gpu": "gpu", "--lora": "lora"}.get(flag, "variant")
    assert getattr(found, name) is None


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("SFT", "is SFT, not GRPO (the answers can be checked, so not SFT or DPO.)"),
        ("off-ramp: RAG", "is OFF-RAMP, RAG, not GRPO"),
        ("SFT, then GRPO", "is not decided: it names GRPO and SFT"),
        ("<SFT | DPO/ORPO/KTO | GRPO+RLVR>", "is not decided"),
    ],
)
def test_another_method_is_refused_with_the_reason(brief, method, words):
    with pytest.raises(UserError) as refused:
        read_brief(brief(method=method))
    assert words in str(refused.value)


def test_fields_as_lines_and_in_the_brief_s_own_folder(brief, tmp_path):
    folder = tmp_path / "runs" / "a"
    (folder / "base").mkdir(parents=True)
    (folder / "base" / "config.json").write_text("{}")
    write_rows(folder / "rows.jsonl", sums(8))
    path = folder / "training-brief.md"
    path.write_text("**Chosen Method:** GRPO\n- Base Model: `base`\n* **Dataset Expectation**: rows.jsonl\nMemory Budget: H200\n", encoding="utf-8")
    found = read_brief(path)
    assert (found.gpu, found.unread) == ("h200", ())
    assert Path(found.model).samefile(folder / "base") and Path(found.data).samefile(folder / "rows.jsonl")


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"x" * 300_000], ids=["absent", "not text", "too large"])
def test_a_file_that_is_no_brief(tmp_path, content):
    path = tmp_path / "brief.md"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError):
        read_brief(path)


ODD = [
    "",
    "## Base Model\n" + "a/1" * 60_000 + "/",
    "## Base Model\n`" + "a/" * 90_000 + "`",
    "*-\n" * 60_000,
    "**" * 90_000,
    "# " + "# " * 90_000 + "x",
]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_no_brief_keeps_the_reader_busy(tmp_path, text):
    path = tmp_path / "brief.md"
    path.write_text(text, encoding="utf-8")
    assert values(read_brief(path)) == dict.fromkeys(READ)


# ---- through the command
def command(capsys, *arguments: str) -> tuple[int, dict]:
    code = init.main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_choices_reach_the_config_and_a_flag_beats_them(brief, capsys):
    code, answer = command(capsys, "run", "--brief", str(brief(memory="H100")), "--reward", "math", "--model", "owner/other-1b", "--gpu", "h200")
    assert code == 0, answer
    config = load_config("run/train/config.yaml")
    assert (config.model.name_or_path, config.hardware.gpu, config.data.train) == ("owner/other-1b", "h200", "../../data/train.jsonl")
    assert answer["brief"] == [{"flag": "--data", "value": "data/train.jsonl"}]


def test_what_was_not_read_is_told_and_what_is_needed_is_asked_for(brief, capsys):
    code, answer = command(capsys, "run", "--brief", str(brief(memory="a GPU")), "--reward", "math")
    assert code == 0 and answer["brief"][-1] == {"field": "Memory Budget", "unread": "names no GPU that is known", "fix": "--gpu NAME"}
    code, answer = command(capsys, "other", "--brief", str(brief(model="an 8B model")), "--reward", "math")
    (problem,) = answer["error"]["problems"]
    assert code == 2 and problem["where"] == "--model" and "the brief's Base Model names no hub name" in problem["message"]
    assert not Path("other").exists()


def test_a_refused_brief_writes_nothing(brief, capsys):
    code, answer = command(capsys, "run", "--brief", str(brief(method="DPO")), "--reward", "math")
    assert code == 2 and answer["error"]["kind"] == "brief" and not Path("run").exists()
