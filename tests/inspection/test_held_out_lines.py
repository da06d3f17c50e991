"""Recorded completions of rows that do not train (any more): held out, too long, or of another file."""

from __future__ import annotations

import json

import pytest
from grpo_rlvr.config import load_config
from grpo_rlvr.data import load_rows
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.recorded import import_recorded
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.rewards import build_rewards


@pytest.fixture
def split(project):
    """20 rows; `split(data)` writes what follows `train:` in the config's data section."""
    project.data(20)

    def write(data: str = ", eval_split: 0.3"):
        project.write()
        text = project.config_path.read_text()
        project.config_path.write_text(text.replace("{train: train.jsonl}", f"{{train: train.jsonl{data}}}"))
        return load_config(project.config_path)

    return write


def record(project, rows, **more):
    path = project.folder / "all.jsonl"
    path.write_text("".join(json.dumps({**row, "completion": f"<answer>{15 + i}</answer>", **more}) + "\n" for i, row in rows))
    return path


def by_prompt(numbers) -> list[tuple[int, dict]]:
    return [(i, {"prompt": f"{10 + i}+5=?"}) for i in numbers]


def held_out(config) -> list[int]:
    return [int(row["row_id"].partition(":")[2]) for row in load_rows(config, "eval")]


def test_prompts_that_are_now_held_out_are_left_out_and_named(project, split, capsys):
    config = split()
    out = held_out(config)
    rows = load_rows(config, "train")
    samples = import_recorded(record(project, by_prompt(range(20))), config, build_rewards(config), rows)
    assert len(samples) == len(rows) == 20 - len(out)
    assert all(s["completion"] == f"<answer>{s['columns']['answer']}</answer>" for s in samples)
    said = capsys.readouterr().err
    assert f"{len(out)} of 20 completions in all.jsonl answer rows that are held out" in said
    assert f"rows {', '.join(map(str, out))} (from 0)" in said and "data.eval_split" in said and "left out" in said and "record" in said


def test_a_gold_of_their_own_makes_no_difference(project, split):
    config = split()
    rows = load_rows(config, "train")
    samples = import_recorded(record(project, by_prompt(range(20)), answer="7"), config, build_rewards(config), rows)
    assert {s["prompt"] for s in samples} == {row["prompt"] for row in rows}


def test_where_all_are_held_out_the_rows_and_what_to_do_are_said(project, split):
    config = split()
    out, rows = held_out(config), load_rows(config, "train")
    numbers = record(project, [(i, {"prompt_index": i}) for i in out])
    for path in (record(project, by_prompt(out)), numbers):
        with pytest.raises(UserError) as caught:
            import_recorded(path, config, build_rewards(config), rows)
        (problem,) = caught.value.problems
        assert "held out" in problem.message and ", ".join(map(str, out)) in problem.message and "training rows" in problem.fix


def test_rows_of_an_evaluation_file_are_held_out_too(project, split, capsys):
    config = split(", eval: eval.jsonl")
    (project.folder / "eval.jsonl").write_text(json.dumps({"prompt": "held out?", "answer": "1"}) + "\n")
    path = record(project, [*by_prompt(range(2)), (9, {"prompt": "held out?"})])
    assert len(import_recorded(path, config, build_rewards(config), load_rows(config, "train"))) == 2
    assert "1 of 3 completions in all.jsonl answer rows that are held out (data.eval: row 0 (from 0))" in capsys.readouterr().err


def test_prompts_that_are_nobodys_are_said_to_be(project, split):
    config = split()
    path = record(project, [*by_prompt(range(20)), (9, {"prompt": "nobody's?"})])
    with pytest.raises(UserError) as caught:
        import_recorded(path, config, build_rewards(config), load_rows(config, "train"))
    assert "no row of the training data has this prompt" in str(caught.value) and "needs the column answer" in str(caught.value)


def test_recorded_ones_that_are_there_name_what_is_held_out_since(project, split):
    whole = split("")
    run_inspection(whole, completions=record(project, by_prompt(range(20))), quiet=True)
    config = split()
    out = held_out(config)
    with pytest.raises(UserError) as caught:
        run_inspection(config, quiet=True)
    assert f"{len(out)} of the 20 training rows that they answer are held out now (data.eval_split)" in str(caught.value)
    assert "changed (prompt" not in str(caught.value) and "--completions FILE" in str(caught.value)
    lines = (project.folder / "train.jsonl").read_text().replace('"answer": "15"', '"answer": "16"')
    (project.folder / "train.jsonl").write_text(lines)
    with pytest.raises(UserError, match="1 of the 20 training rows that they answer changed"):
        run_inspection(split(""), quiet=True)


def test_rows_that_are_too_long_are_named_with_their_setting(project, split, capsys, monkeypatch):
    monkeypatch.setattr("grpo_rlvr.data.short_enough", lambda config, rows, *more: [i for i in range(len(rows)) if i not in (1, 4)])
    config = split(", max_prompt_tokens: 9")
    rows = load_rows(config, "train")
    for path in (record(project, by_prompt(range(6))), record(project, [(i, {"prompt_index": i}) for i in range(6)])):
        samples = import_recorded(path, config, build_rewards(config), rows)
        assert [s["columns"]["row_id"] for s in samples] == [f"train:{i}" for i in (0, 2, 3, 5)]
        assert "2 of 6 completions in all.jsonl answer rows that are too long (data.max_prompt_tokens: rows 1, 4 (from 0))" in capsys.readouterr().err
