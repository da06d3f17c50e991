"""`train.py init`: files that run as they are, from any folder; all mistakes at once; nothing overwritten or half written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, sums, write_rows
from grpo_rlvr.config import load_config
from grpo_rlvr.data import load_rows
from grpo_rlvr.training import init
from grpo_rlvr.training.filling import Choices, fill
from grpo_rlvr.yaml_file import parse

TRAIN = [sys.executable, str(ROOT / "scripts" / "train.py")]
TEMPLATE = (ROOT / "templates" / "config.yaml").read_text(encoding="utf-8")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with data and a model folder that is only a name."""
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data" / "train.jsonl", sums(40))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(init, "next_command", lambda folder: "the check")
    return tmp_path


def run(capsys, *arguments: str) -> tuple[int, dict]:
    code = init.main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def written(capsys, *arguments: str, folder: str = "run") -> Path:
    code, answer = run(capsys, folder, "--model", "model", "--data", "data/train.jsonl", *arguments)
    assert code == 0, answer
    assert all(Path(file).is_file() for file in answer["files"])
    return Path(folder) / "train"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


def said(answer: dict) -> dict[str, str]:
    return {p["where"]: f"{p['message']} {p['fix']}" for p in answer["error"]["problems"]}


# ---- what is written
@pytest.mark.model
def test_after_init_only_the_gate_is_missing_from_any_folder(project, untaught_model, monkeypatch):
    shutil.copytree(untaught_model, project / "model")
    monkeypatch.delenv("GRPO_RLVR_SKILL", raising=False)
    flags = ["--model", "model", "--data", "train.jsonl", "--reward", "format", "--reward", "exact", "--json"]
    done = subprocess.run([*TRAIN, "init", str(project / "runs/a"), *flags], cwd=project, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    # The copy is the template, and the printed command works as it stands: it says where the library is.
    assert (project / "runs/a/train/train.py").read_bytes() == (ROOT / "templates/train.py").read_bytes()
    assert os.access(project / "runs/a/train/train.py", os.X_OK)
    command = f"{json.loads(done.stdout)['next']} --json"
    checked = subprocess.run(command, shell=True, cwd="/", capture_output=True, text=True, timeout=300)
    assert checked.returncode == 1, checked.stderr
    error = json.loads(checked.stdout)["error"]
    assert error["kind"] == "gate" and len(error["problems"]) == 1 and "there is no gate" in error["message"]
    assert error["problems"][0]["where"] == str(project / "runs/a/inspection/gate.json")


def test_the_run_s_own_files_go_into_the_folder(here, capsys):
    config = load_config(written(capsys, "--reward", "math") / "config.yaml")
    assert config.run_folder == here / "run"
    assert config.gate_path == here / "run/inspection/gate.json"
    assert config.data.eval_split == 0.25 and config.data.eval is None


@pytest.mark.parametrize(
    ("rows", "split", "held_out", "width"),
    [(40, 0.25, 10, 31), (128, 0.25, 32, 17), (200, 0.16, 32, 17), (320, 0.1, 32, 17), (500, 0.1, 50, None), (2000, 0.1, 200, None)],
)
def test_at_least_32_are_held_out_where_that_is_no_more_than_a_quarter(here, capsys, rows, split, held_out, width):
    write_rows(here / "data/train.jsonl", sums(rows))
    code, answer = run(capsys, "run", "--model", "model", "--data", "data/train.jsonl", "--reward", "math")
    assert code == 0, answer
    config = load_config("run/train/config.yaml")
    assert config.data.eval_split == split and len(load_rows(config, "eval")) == held_out
    line = next(line for line in Path("run/train/config.yaml").read_text().splitlines() if "eval_split" in line)
    assert line.endswith(f"# {held_out} of {rows} rows are held out")
    said = [w["message"] for w in answer["warnings"] if w["code"] == "few-held-out"]
    assert said == ([] if width is None else [f"{held_out} held-out prompts: an accuracy is known to within {width} points either way, so a "
                                              "smaller gain cannot be shown"])  # fmt: skip


def test_rows_that_are_not_here_are_split_by_a_tenth(here, capsys):
    code, answer = run(capsys, "run", "--model", "owner/model", "--data", "owner/data:train", "--reward", "math")
    assert code == 0 and answer["warnings"] == [] and load_config("run/train/config.yaml").data.eval_split == 0.1
    assert "# a tenth of train is held out" in Path("run/train/config.yaml").read_text()


def test_one_prompt_many_times_cannot_be_split(here, capsys):
    write_rows(here / "data/train.jsonl", sums(1) * 40)  # the check of the config says so
    code, answer = run(capsys, "run", "--model", "model", "--data", "data/train.jsonl", "--reward", "math")
    assert code == 0 and load_config("run/train/config.yaml").data.eval_split == 0.25


def test_prompts_that_ask_for_another_form_than_the_template_are_named(here, capsys):
    write_rows(here / "data/train.jsonl", [{"question": f"{i}+1? Use \\boxed{{}}.", "answer": str(i + 1)} for i in range(600)])
    code = init.main(["run", "--model", "model", "--data", "data/train.jsonl", "--reward", "math", "--prompt-column", "question"])
    said = capsys.readouterr().err
    assert code == 0 and "warning (two-forms): 100 of the first 100 prompts ask for \\boxed{}, and data.system_prompt asks for <answer>" in said
    code, answer = run(capsys, "other", "--model", "model", "--data", "data/train.jsonl", "--reward", "own.py:score", "--prompt-column", "question")
    assert code == 2
    (here / "own.py").write_text("def score(completions, answer, **columns):\n    return [0.0] * len(completions)\n")
    code, answer = run(capsys, "other", "--model", "model", "--data", "data/train.jsonl", "--reward", "own.py:score", "--prompt-column", "question")
    assert code == 0 and answer["warnings"] == []  # the template's system prompt is left out


def test_names_are_seen_from_the_config_s_folder(here, capsys):
    (here / "disk/much/elsewhere").mkdir(parents=True)
    os.symlink(here / "disk/much/elsewhere", here / "run")  # the run's folder is a link, as to a larger disk
    write_rows(here / "odd: name, {of} #1.jsonl", sums(8, first=500))
    (here / "mine.py").write_text("def score(completions, answer):\n    return [0.0] * len(completions)\n")
    inner = "{use: length, weight: 0.5, args: {use: 'mine.py:score', target_tokens: 9}}"
    flags = ["--eval", "odd: name, {of} #1.jsonl", "--reward", "mine.py:score", "--reward", inner]
    path = written(capsys, *flags) / "config.yaml"
    config = load_config(path.resolve())
    assert config.resolve(config.model.name_or_path).samefile(here / "model")
    assert config.resolve(config.data.train).samefile(here / "data/train.jsonl")
    assert config.resolve(config.data.eval).samefile(here / "odd: name, {of} #1.jsonl")
    own, length = config.rewards
    for use in (own.use, length.args["use"]):
        assert config.resolve(use.partition(":")[0]).samefile(here / "mine.py") and use.endswith(":score")
    assert not any(Path(name).is_absolute() for name in (config.model.name_or_path, config.data.train, config.data.eval, own.use))
    assert (length.weight, length.args["target_tokens"]) == (0.5, 9)
    assert load_config(path).run_folder.samefile(here / "disk/much/elsewhere")


def test_absolute_names_and_those_of_the_hub_stay(here, capsys):
    code, answer = run(
        capsys, "run", "--model", "owner/model-1b", "--data", str(here / "data/train.jsonl"), "--eval", "owner/data:test", "--reward", "re:match"
    )
    assert code == 2 and "--reward" in next(iter(said(answer)))  # a module's function is looked at: it takes no completions
    code, answer = run(
        capsys, "run", "--model", "owner/model-1b", "--data", str(here / "data/train.jsonl"), "--eval", "owner/data:test", "--reward", "math"
    )
    assert code == 0, answer
    config = load_config("run/train/config.yaml")
    assert (config.model.name_or_path, config.data.train, config.data.eval) == ("owner/model-1b", str(here / "data/train.jsonl"), "owner/data:test")


def test_each_flag_reaches_its_setting(here, capsys):
    write_rows(here / "data/train.jsonl", [{"question": row["prompt"], "target": row["answer"]} for row in sums(40)])
    flags = ["--gpu", "NVIDIA H100 80GB HBM3", "--count", "2", "--lora", "8", "--variant", "dapo", "--prompt-column", "question"]
    folder = written(capsys, *flags, "--answer-column", "target", "--reward", "format", "--reward", "exact")
    config = load_config(folder / "config.yaml")
    assert (config.hardware.gpu, config.hardware.count, config.variant) == ("h100-80gb", 2, "dapo")
    assert (config.model.lora.r, config.model.lora.alpha, config.grpo["learning_rate"]) == (8, 16, 1e-5)
    assert config.data.columns == {"prompt": "question", "answer": "target"}
    assert [(r.use, r.weight) for r in config.rewards[:2]] == [("format", 0.2), ("exact", 1.0)]
    # All else is the template's, and its comments are there.
    text = (folder / "config.yaml").read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=config.schema.json\n") and text.count("#") > 30
    assert (folder / "config.schema.json").read_bytes() == (ROOT / "templates/config.schema.json").read_bytes()


def test_an_own_reward_to_start_from(here, capsys):
    folder = written(capsys, "--reward", "file")
    assert (folder / "rewards.py").read_bytes() == (ROOT / "templates/rewards.py").read_bytes()
    config = load_config(folder / "config.yaml")
    assert config.rewards[0].use == "rewards.py:within_tolerance" and config.data.system_prompt is not None


@pytest.mark.parametrize(("reward", "kept"), [("tool_calls", False), ("math", True), ("{use: length, args: {use: exact, target_tokens: 9}}", True)])
def test_the_prompt_for_tags_is_there_where_a_reward_reads_them(here, capsys, reward, kept):
    write_rows(here / "data/train.jsonl", [{**row, "expected_calls": []} for row in sums(40)])
    config = load_config(written(capsys, "--reward", reward) / "config.yaml")
    assert (config.data.system_prompt is not None) is kept


@pytest.mark.parametrize("name", ["a\nb", "2026-11-30", "1e-6", "...", "x: y # z", "- a", "{a}", "é", "null", "on", "~", "3", " a ", "'\"", "a, b"])
def test_any_name_comes_back_from_the_text(name):
    text = fill(TEMPLATE, Choices(name, name, [{"use": name, "args": {name: [name, 3, 0.5, None]}}], eval=name, columns={name: name}))
    read = parse(text)
    assert (read["model"]["name_or_path"], read["data"]["train"], read["data"]["eval"], read["data"]["columns"]) == (name, name, name, {name: name})
    assert read["rewards"] == [{"use": name, "args": {name: [name, 3, 0.5, None]}}]


def test_a_template_that_lost_a_line_is_noticed():
    choices = Choices("m", "t", [{"use": "math"}], count=2)
    assert "count: 2" in fill(TEMPLATE, choices)
    with pytest.raises(ValueError, match="count"):
        fill(TEMPLATE.replace("  count: 1\n", ""), choices)


# ---- what is refused
def test_all_mistakes_come_at_once_and_nothing_is_written(here, capsys):
    before = tree(here)
    flags = ["--model", "modell", "--data", "none.jsonl", "--eval", "no.csv", "--reward", "maht", "--reward", "{use: x", "--gpu", "h200x"]
    code, answer = run(capsys, "run", *flags, "--count", "0", "--lora", "0", "--variant", "dap", "--resume")
    problems = said(answer)
    assert code == 2
    for where, words in {
        "--model": "modell", "--data": "none.jsonl", "--eval": "no.csv", "--reward (rewards[0].use)": "`math`", "--reward (rewards)": "{use: x",
        "--gpu": "`h200`", "--count": "got 0", "--lora": "", "--variant": "`dapo`", "--resume": "nothing that init knows",
    }.items():  # fmt: skip
        assert words in problems[where], (where, problems)
    assert tree(here) == before


@pytest.mark.parametrize(
    ("flags", "where", "words"),
    [
        (["--reward", "math", "--answer-column", "anser"], "--data", "did you mean `answer`? say which it is: --answer-column"),
        (["--reward", "math", "--prompt-column", "question"], "--data", "--prompt-column"),
        (["--reward", "schema"], "--data", "no column 'output_schema'"),
        (["--reward", "format", "--answer-column", "answer"], "--answer-column", "no reward reads a gold column"),
        (["--reward", "length"], "--reward (rewards[0] args.target_tokens)", "needs it"),
        (["--reward", "none.py:f"], "--reward (rewards[0] rewards.use 'none.py:f')", "as seen from here"),
    ],
)
def test_columns_and_rewards_are_looked_at(here, capsys, flags, where, words):
    code, answer = run(capsys, "run", "--model", "model", "--data", "data/train.jsonl", *flags)
    assert code == 2 and words in said(answer)[where], answer
    assert not Path("run").exists()


PAIRS = {"prompt": "p", "chosen": "It is 3.", "rejected": "No."}
LABELLED = {"prompt": "p", "completion": "It is 3.", "label": True}
TURNS = [{"role": "user", "content": "p"}, {"role": "assistant", "content": "It is 3."}]


@pytest.mark.parametrize(
    ("row", "flags", "words"),
    [
        (PAIRS, [], ["preference data (chosen, rejected)", "a program can check", "TRL's DPOTrainer"]),
        ({**PAIRS, "prompt": "q", "id": 3}, ["--answer-column", "chosen"], ["'chosen' is no gold", "DPOTrainer"]),
        (PAIRS, ["--answer-column", "rejected"], ["'rejected' is no gold", "DPOTrainer"]),
        ({"chosen": TURNS, "rejected": TURNS}, [], ["preference data (chosen, rejected)", "DPOTrainer"]),
        (LABELLED, [], ["preference data (completion, label)", "KTOTrainer"]),
        (LABELLED, ["--answer-column", "label"], ["'label' is no gold", "KTOTrainer"]),
        (LABELLED, ["--answer-column", "completion"], ["'completion' is no gold", "KTOTrainer"]),
        ({"messages": TURNS}, [], ["conversations to imitate (messages)", "SFTTrainer"]),
        ({"messages": TURNS, "id": 1, "source": "s"}, ["--prompt-column", "messages"], ["conversations to imitate (messages)", "SFTTrainer"]),
        ({"messages": TURNS}, ["--answer-column", "messages"], ["'messages' is no gold", "SFTTrainer"]),
    ],
)
def test_data_for_another_way_of_training_is_named_with_its_trainer(here, capsys, row, flags, words):
    write_rows(here / "data/train.jsonl", [row] * 3)
    code, answer = run(capsys, "run", "--model", "model", "--data", "data/train.jsonl", "--reward", "exact", *flags)
    assert code == 2 and list(said(answer)) == ["--data"], answer
    for word in (*words, "--answer-column NAME"):
        assert word in said(answer)["--data"]
    assert "did you mean" not in said(answer)["--data"] and not Path("run").exists()


@pytest.mark.parametrize(
    ("row", "flags"),
    [
        ({**PAIRS, "answer": "3"}, ["--reward", "exact"]),
        ({**PAIRS, "gold": "3"}, ["--reward", "exact", "--answer-column", "gold"]),
        ({**LABELLED, "gold": "3"}, ["--reward", "exact", "--answer-column", "gold"]),
        ({"messages": TURNS[:1], "gold": "3"}, ["--reward", "exact", "--answer-column", "gold", "--prompt-column", "messages"]),
        ({"prompt": "p", "label": True}, ["--reward", "exact", "--answer-column", "label"]),  # a question of yes or no
        ({"prompt": "p", "completion": "3"}, ["--reward", "exact", "--answer-column", "completion"]),
        (PAIRS, ["--reward", "format"]),  # reads no gold: the prompts are enough
        (PAIRS, ["--reward", "near.py:chosen_words"]),  # an own reward that asks for the column by its name
    ],
)
def test_golds_beside_such_columns_are_taken(here, capsys, row, flags):
    (here / "near.py").write_text("def chosen_words(completions, chosen):\n    return [0.0] * len(completions)\n")
    write_rows(here / "data/train.jsonl", [row] * 3)
    code, answer = run(capsys, "run", "--model", "model", "--data", "data/train.jsonl", *flags)
    assert code == 0, answer


def test_messages_beside_a_column_that_may_be_the_gold_are_asked_about(here, capsys):
    write_rows(here / "data/train.jsonl", [{"messages": TURNS, "final": "3"}] * 3)
    _, answer = run(capsys, "run", "--model", "model", "--data", "data/train.jsonl", "--reward", "exact", "--prompt-column", "messages")
    assert "no column 'answer'; it has: final, messages" in said(answer)["--data"]


def test_nothing_is_overwritten_and_all_that_is_there_is_named(here, capsys):
    folder = written(capsys, "--reward", "file")
    (folder / "config.yaml").write_text("mine")
    (folder / "train.py").unlink()
    before = tree(here)
    code, answer = run(capsys, "run", "--model", "none", "--data", "data/train.jsonl", "--reward", "file")
    there = {f"run/train/{name}" for name in ("rewards.py", "config.schema.json", "config.yaml")}
    assert code == 2 and set(said(answer)) == {*there, "--model"}
    assert tree(here) == before


def test_a_file_in_the_place_of_the_folder_is_named(here, capsys):
    Path("run").write_text("")
    code, answer = run(capsys, "run", "--model", "model", "--data", "data/train.jsonl", "--reward", "math")
    assert code == 2 and "no folder" in said(answer)["run"]


@pytest.mark.parametrize("kept", [False, True], ids=["new folder", "folder that is there"])
def test_a_failure_in_the_middle_leaves_nothing(here, capsys, monkeypatch, kept):
    if kept:
        Path("runs/a/train").mkdir(parents=True)
    before, rename, calls = tree(here), os.rename, []

    def failing(source, target):
        calls.append(target)
        if len(calls) == 3:
            raise OSError(28, "No space left on device", str(target))
        rename(source, target)

    monkeypatch.setattr(init.os, "rename", failing)
    code, answer = run(capsys, "runs/a", "--model", "model", "--data", "data/train.jsonl", "--reward", "math")
    assert code == 3 and "No space left" in answer["error"]["message"] and len(calls) == 3
    assert tree(here) == before


# ---- one entry for two things
def test_a_config_called_init_is_no_trap(here):
    Path("init").write_text("model: [")
    help_text = subprocess.run([*TRAIN, "--help"], capture_output=True, text=True).stdout
    assert "train.py init DIR" in help_text and "train.py config.yaml --check" in help_text
    done = subprocess.run([*TRAIN, "init", "--check"], capture_output=True, text=True)
    assert done.returncode == 2 and "write ./init" in done.stderr and "DIR" in done.stderr
    done = subprocess.run([*TRAIN, "./init", "--check"], capture_output=True, text=True)
    assert done.returncode == 2 and "not valid YAML" in done.stderr
    assert sorted(path.name for path in here.iterdir()) == ["data", "init", "model"]


def test_json_is_one_object_for_a_wrong_command_line_too(here):
    done = subprocess.run([*TRAIN, "init", "run", "--count", "many", "--json"], capture_output=True, text=True)
    assert done.returncode == 2 and "--count" in json.loads(done.stdout)["error"]["message"]


def test_people_read_what_was_written_and_what_comes_next(here, capsys):
    assert init.main(["run", "--model", "model", "--data", "data/train.jsonl", "--reward", "math"]) == 0
    out, err = capsys.readouterr()
    assert out == "" and "run/train/config.yaml" in err and "the check" in err


def test_a_library_without_the_templates_says_so(here, capsys, monkeypatch):
    monkeypatch.setattr(init, "TEMPLATES", here / "none")
    code, answer = run(capsys, "run", "--model", "model", "--data", "data/train.jsonl", "--reward", "math")
    assert code == 3 and answer["error"]["kind"] == "missing"
