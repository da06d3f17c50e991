"""`--match COLUMN`: recorded completions joined to data rows by a column that both have."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import inspect_rewards
import pytest
from conftest import ROOT
from grpo_rlvr.config import load_config
from grpo_rlvr.data import load_rows
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.recorded import import_recorded
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.rewards import build_rewards

DATA = [{"id": f"q{a}", "number": a, "prompt": f"{a}+5=?", "answer": str(a + 5), "kind": a % 2} for a in range(10, 16)]


@pytest.fixture
def take(project):
    """Write data and lines, import them with `--match`."""

    def take(lines: list[dict], match: str | None = "id", data: list[dict] = DATA, more: str = "") -> list[dict]:
        (project.folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
        project.write()
        text = project.config_path.read_text()
        project.config_path.write_text(text.replace("{train: train.jsonl}", f"{{train: train.jsonl{more}}}"))
        config = load_config(project.config_path)
        path = project.folder / "recorded.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return import_recorded(path, config, build_rewards(config), load_rows(config, "train"), match=match)

    return take


def test_equal_values_are_one_row(take):
    last, first = take([{"id": "q15", "completion": "a", "tokens": 3}, {"id": "q10", "completion": "b", "finish": "stop"}])
    assert (last["prompt_index"], last["prompt"], last["columns"]["answer"], last["tokens"]) == (5, "15+5=?", "20", 3)
    assert (first["prompt_index"], first["columns"], first["finish"]) == (
        0,
        {"row_id": "train:0", "id": "q10", "number": 10, "answer": "15", "kind": 0},
        "stop",
    )


@pytest.mark.parametrize("value", [12, "12", 12.0])
def test_a_number_and_its_text_are_equal_and_the_column_stays_the_datas(take, value):
    (sample,) = take([{"number": value, "completion": "a"}], "number")
    assert sample["prompt_index"] == 2 and sample["columns"]["number"] == 12
    texts = [{**row, "number": str(row["number"])} for row in DATA]
    assert take([{"number": value, "completion": "a"}], "number", texts)[0]["columns"]["number"] == "12"


def test_the_same_as_with_row_numbers(take, project):
    matched = take([{"id": f"q{10 + i}", "completion": f"<answer>{i}</answer>"} for i in range(6)])
    assert take([{"prompt_index": i, "completion": f"<answer>{i}</answer>"} for i in range(6)], None) == matched


def problem(caught) -> str:
    (found,) = caught.value.problems
    return f"{found.where}: {found.message} -> {found.fix}"


def test_values_that_stand_twice_in_the_data_are_one_error(take):
    with pytest.raises(UserError) as caught:
        take([{"kind": 0, "completion": "a"}], "kind")
    said = problem(caught)
    assert "--match" in said and "'0' (rows 0, 2, 4)" in said and "'1' (rows 1, 3, 5)" in said and "(from 0)" in said
    with pytest.raises(UserError, match="'1' "):  # a number and its text are one value
        take([{"id": 1, "completion": "a"}], data=[{**DATA[0], "id": 1}, {**DATA[1], "id": "1"}])


def test_unknown_values_are_one_error(take):
    with pytest.raises(UserError) as caught:
        take([{"id": v, "completion": "a"} for v in ("q10", "x", "x", "y")])
    said = problem(caught)
    assert "2 values of 'id' (3 of 4 completions in recorded.jsonl) are in no row of the data: 'x', 'y'" in said
    with pytest.raises(UserError, match=r"1 of 2 completions in recorded.jsonl have no 'id'.*line 2"):
        take([{"id": "q10", "completion": "a"}, {"completion": "a"}])


def test_a_column_that_the_data_lacks(take):
    with pytest.raises(UserError) as caught:
        take([{"uid": "q10", "completion": "a"}], "uid")
    assert "no column 'uid'; it has: answer, id, kind, number, prompt" in problem(caught)
    with pytest.raises(UserError, match="completion is one of the format's own"):
        take([{"completion": "a"}], "completion")


def test_a_line_with_another_row_number_is_refused(take):
    assert take([{"id": "q12", "prompt_index": 2, "completion": "a"}])[0]["prompt_index"] == 2
    with pytest.raises(UserError, match=r"line 1: prompt_index is 3, and its 'id' is that of row 2"):
        take([{"id": "q12", "prompt_index": 3, "completion": "a"}])


def test_bad_lines_are_still_named(take):
    with pytest.raises(UserError) as caught:
        take([{"id": "q10", "completion": "a"}, {"id": "q11"}])
    assert "recorded.jsonl line 2: no completion" in str(caught.value)


def test_rows_that_are_held_out_are_left_out(take, project, capsys):
    samples = take([{"id": row["id"], "completion": "a"} for row in DATA], more=", eval_split: 0.34")
    config = load_config(project.config_path)
    assert [s["columns"]["id"] for s in samples] == [row["id"] for row in load_rows(config, "train")] and len(samples) == 4
    assert "2 of 6 completions in recorded.jsonl answer rows that are held out (data.eval_split: rows" in capsys.readouterr().err


def test_rows_of_an_evaluation_file(take, project, capsys):
    (project.folder / "eval.jsonl").write_text(json.dumps({**DATA[0], "id": "e1", "prompt": "?"}) + "\n")
    assert len(take([{"id": "q10", "completion": "a"}, {"id": "e1", "completion": "a"}], more=", eval: eval.jsonl")) == 1
    assert "1 of 2 completions in recorded.jsonl answer rows that are held out (data.eval: row 0" in capsys.readouterr().err


def test_a_renamed_column_has_either_name(take):
    data = [{**{k: v for k, v in row.items() if k != "id"}, "uid": row["id"]} for row in DATA]
    for name in ("uid", "id"):
        assert take([{name: "q12", "completion": "a"}], name, data, ", columns: {id: uid}")[0]["prompt_index"] == 2


def test_lines_that_name_no_row_are_told_of_a_shared_column(take):
    lines = [{"id": row["id"], "kind": row["kind"], "answer": row["answer"], "completion": "a"} for row in DATA]
    with pytest.raises(UserError) as caught:
        take(lines, None)
    (fix,) = {p.fix for p in caught.value.problems if "--match" in p.fix}
    assert "--match id" in fix and "--match kind" not in fix and "--match answer" not in fix
    with pytest.raises(UserError) as caught:
        take([{**line, "id": "else"} for line in lines], None)
    assert "--match id" not in str(caught.value)


def test_a_table_of_trl_that_logs_the_column(take, project, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    take([{"id": "q10", "completion": "a"}])
    config = load_config(project.config_path)
    path = tmp_path / "completions_00003.parquet"
    row = {"step": 3, "prompt": "rendered", "completion": "x", "exact": 1.0, "advantage": 0.5}
    parquet.write_table(pa.Table.from_pylist([{**row, "id": "q12"}]), path)
    (sample,) = import_recorded(path, config, build_rewards(config), load_rows(config, "train"), match="id")
    assert sample["prompt"] == "12+5=?" and "exact" not in sample["columns"] and "step" not in sample["columns"]


def test_the_flag_goes_with_completions(project, capsys):
    project.write()
    assert inspect_rewards.main(["run", str(project.config_path), "--match", "id"]) == 2
    assert "it goes with --completions" in capsys.readouterr().err
    assert inspect_rewards.main(["run", str(project.config_path), "--from-run", "x", "--match", "id"]) == 2
    assert "--match: --from-run reads the run's own completions" in capsys.readouterr().err


def test_a_users_files(tmp_path, capsys):
    shutil.copytree(ROOT / "evals" / "files" / "dead-groups", tmp_path / "p")
    config = tmp_path / "p" / "config.yaml"
    config.write_text("model: {name_or_path: org/m}\ndata: {train: data/train.jsonl}\nrewards: [{use: exact}]\nrun: {folder: runs/a}\n")
    record = str(tmp_path / "p" / "samples" / "base_model_k8.jsonl")
    assert inspect_rewards.main(["run", str(config), "--completions", record]) == 2
    assert "--match id" in capsys.readouterr().err
    assert inspect_rewards.main(["run", str(config), "--completions", record, "--match", "id", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    numbers = tmp_path / "numbers.jsonl"
    at = {json.loads(line)["id"]: i for i, line in enumerate((tmp_path / "p" / "data" / "train.jsonl").read_text().splitlines())}
    rows = [json.loads(line) for line in Path(record).read_text().splitlines()]
    numbers.write_text("".join(json.dumps({"prompt_index": at[row.pop("id")], **row}) + "\n" for row in rows))
    assert run_inspection(load_config(config), completions=numbers, quiet=True)["signal"] == result["signal"]
