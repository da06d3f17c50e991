"""Parquet files: of anybody, and the tables that TRL writes."""

from __future__ import annotations

import sys

import pytest
from grpo_rlvr.data import load_rows
from grpo_rlvr.errors import MissingError, UserError
from grpo_rlvr.inspection.recorded_file import read_recorded
from grpo_rlvr.inspection.tables import of_training, read_parquet, table_paths
from grpo_rlvr.rewards import build_rewards

pa = pytest.importorskip("pyarrow")


def write(path, rows: list[dict]):
    import pyarrow.parquet as parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def table_row(prompt, completion, step: int = 3, **more) -> dict:
    return {"step": step, "prompt": prompt, "completion": completion, "exact": 1.0, "advantage": 0.5, **more}


def test_a_parquet_file_has_the_columns_of_a_line(project, tmp_path):
    config = project.write()
    rows = [
        {"prompt_index": 2, "prompt": None, "completion": "a", "finish": "length", "tokens": 7, "answer": "17"},
        {"prompt_index": None, "prompt": "12+5=?", "completion": "b", "finish": None, "tokens": None, "answer": "x"},
    ]
    first, second = read_recorded(write(tmp_path / "c.parquet", rows), build_rewards(config), load_rows(config, "train"))
    assert (first["prompt_index"], first["finish"], first["tokens"], first["columns"]["answer"]) == (2, "length", 7, "17")
    assert (second["prompt_index"], second["finish"], second["tokens"], second["columns"]["answer"]) == (2, "unknown", None, "x")
    with pytest.raises(UserError, match="c.parquet row 1: prompt_index is 99"):
        read_recorded(write(tmp_path / "c.parquet", [rows[0], {**rows[0], "prompt_index": 99}]), build_rewards(config), load_rows(config, "train"))
    (tmp_path / "d.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        read_recorded(tmp_path / "d.parquet", [], [])


def test_a_table_of_trl_is_taken_for_one(project, tmp_path, capsys):
    config = project.write()
    path = write(tmp_path / "completions_00003.parquet", [table_row("10+5=?", "<answer>15</answer>"), table_row("held out", "x")])
    (sample,) = read_recorded(path, build_rewards(config), load_rows(config, "train"))
    assert sample["columns"]["answer"] == "15" and "exact" not in sample["columns"] and "advantage" not in sample["columns"]
    assert "1 of 2 rows of completions_00003.parquet answer no training prompt" in capsys.readouterr().err
    with pytest.raises(UserError, match="no row of completions_00003.parquet answers a prompt of the training data"):
        read_recorded(write(path, [table_row("held out", "x")]), build_rewards(config), load_rows(config, "train"))


def test_prompts_find_their_rows_through_arrows_nulls(tmp_path):
    chat = [{"role": "user", "content": "1+1=?"}]
    tooled = [{"role": "user", "content": "2+2=?", "name": "ada"}, {"role": "assistant", "content": None}]
    rows = [{"prompt": chat, "answer": "2", "row_id": "train:0"}, {"prompt": tooled, "answer": "4", "row_id": "train:1"}]
    rows += [{"prompt": "twice", "answer": a, "row_id": f"train:{a}"} for a in ("5", "6")]
    rows += [{"prompt": "same", "answer": "7", "row_id": f"train:{i}"} for i in (4, 5)]
    answer = [{"role": "assistant", "content": "2", "reasoning_content": None}]
    path = write(tmp_path / "t.parquet", [table_row(chat, answer), table_row(tooled, answer), table_row(chat, answer, exact=float("nan"))])
    table = read_parquet(path) + [table_row("twice", "5"), table_row("same", "7"), table_row("new", "1"), table_row("evaluated", "1")]
    found = of_training(table, rows, [{"prompt": "evaluated", "answer": "1"}])
    assert [row["prompt_index"] for row in found.rows] == [0, 1, 0, 4]
    assert found.rows[0]["completion"] == [{"role": "assistant", "content": "2"}]
    assert [logged["exact"] for logged in found.logged] == [1.0, 1.0, None, 1.0]
    assert (found.ambiguous, found.held_out, found.strangers) == (1, 1, 1)


def test_tables_are_found_from_our_folder_trls_or_their_own(tmp_path):
    folder = tmp_path / "run" / "train" / "checkpoints" / "completions"
    for step in (20, 3, 100000):
        write(folder / f"completions_{step:05d}.parquet", [table_row("p", "c")])
    (folder / "completions_x.parquet").write_text("")
    for place in (tmp_path / "run", folder.parent, folder):
        assert list(table_paths(place)) == [3, 20, 100000]
    assert table_paths(tmp_path / "none") == {}


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path / "c.parquet", [{"completion": "a"}])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingError, match="pip install datasets") as caught:
        read_parquet(path)
    assert caught.value.exit_code == 3


def test_a_folder_is_no_file_of_completions(tmp_path):
    with pytest.raises(UserError, match=r"is a folder(.|\n)*--from-run"):
        read_recorded(tmp_path, [], [])
