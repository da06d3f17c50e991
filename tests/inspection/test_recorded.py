from __future__ import annotations

import json

import pytest
from grpo_rlvr.config import load_config
from grpo_rlvr.data import load_rows
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.recorded import import_recorded
from grpo_rlvr.inspection.recorded_file import read_recorded
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.rewards import build_rewards


@pytest.fixture
def read(project):
    config = project.write()
    rewards, rows = build_rewards(config), load_rows(config, "train")

    def read(*lines: object) -> list[dict]:
        path = project.folder / "recorded.jsonl"
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return read_recorded(path, rewards, rows)

    return read


def test_by_row_number_and_by_prompt(read):
    by_index, by_prompt, own = read(
        {"prompt_index": 2, "completion": "a", "finish": "length", "tokens": 7},
        {"prompt": "12+5=?", "completion": "b"},
        {"prompt": "new?", "completion": "c", "answer": "3"},
    )
    assert by_index["prompt"] == "12+5=?" and by_index["columns"]["answer"] == "17" and (by_index["finish"], by_index["tokens"]) == ("length", 7)
    assert by_prompt["prompt_index"] == 2 and by_prompt["columns"]["answer"] == "17" and by_prompt["finish"] == "unknown"
    assert own["prompt_index"] == 6 and own["columns"] == {"answer": "3"}


def test_gold_in_the_line_wins(read):
    assert read({"prompt_index": 0, "completion": "a", "answer": "x"})[0]["columns"]["answer"] == "x"


def test_ids_tell_duplicates_apart_and_do_not_depend_on_gold(read):
    first, second, third = read(*[{"prompt_index": 0, "completion": "a", "answer": str(i)} for i in range(3)])
    assert len(first["sample_id"]) == 16
    assert (second["sample_id"], third["sample_id"]) == (first["sample_id"] + "-1", first["sample_id"] + "-2")


def test_all_bad_lines_are_reported_with_numbers(read):
    with pytest.raises(UserError) as caught:
        read(
            {"prompt_index": 0, "completion": "fine"},
            "{torn",
            {"prompt_index": 99, "completion": "a"},
            {"prompt_index": 0},
            {"completion": "a"},
            {"prompt": "unknown", "completion": "a"},
            {"prompt_index": 0, "completion": [{"role": "user", "content": "?"}], "finish": "eos", "tokens": -1},
            {"prompt_index": True, "completion": "a"},
            {"prompt": "x", "completion": "a", "answer": None},
        )
    said = {p.where: p.message for p in caught.value.problems}
    assert set(said) == {f"recorded.jsonl line {n}" for n in (2, 3, 4, 5, 6, 7, 8, 9)} | {""}
    assert "6 rows, numbered from 0" in said["recorded.jsonl line 3"] and said["recorded.jsonl line 4"] == "no completion"
    assert "neither a prompt nor a prompt_index" in said["recorded.jsonl line 5"]
    assert "needs the column answer" in said["recorded.jsonl line 6"]
    assert said["recorded.jsonl line 7"].count(";") == 2
    assert "missing" in said["recorded.jsonl line 9"]


@pytest.mark.parametrize("tokens", [10**400, 2**31 + 1, -1, 1.5, True])
def test_a_length_that_no_text_has_is_refused_with_its_line(read, tokens):
    with pytest.raises(UserError, match=r"line 2.*not a count") as caught:
        read({"prompt_index": 0, "completion": "a", "tokens": 2**31}, {"prompt_index": 0, "completion": "a", "tokens": tokens})
    assert len(str(caught.value)) < 3000


def test_beside_a_row_number_the_row_s_own_prompt_counts(read):
    user = {"role": "user", "content": "11+5=?"}
    samples = read(
        {"prompt_index": 1, "prompt": None, "completion": "a"},  # as in a Parquet file: not given
        {"prompt_index": 1, "prompt": "11+5=?", "completion": "a"},
        {"prompt_index": 1, "prompt": [{"role": "system", "content": "s"}, user], "completion": "a"},
    )
    assert [s["prompt"] for s in samples] == ["11+5=?"] * 3


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (5, "neither text nor a list of messages"),
        ({}, "neither text nor a list of messages"),
        ([], "prompt_index says row 1, and the prompt is in no row of the training data"),
        ([5], "in no row of the training data"),
        ("", "in no row of the training data"),
        ("13+5=?", "prompt_index says row 1, and the prompt is that of row 3: mend one of the two"),
    ],
)
def test_a_prompt_that_is_not_the_row_s_is_refused_with_its_line(read, prompt, said):
    with pytest.raises(UserError) as caught:
        read({"prompt_index": 0, "completion": "fine"}, {"prompt_index": 1, "prompt": prompt, "completion": "a"})
    first = caught.value.problems[0]
    assert first.where == "recorded.jsonl line 2" and said in first.message


@pytest.mark.parametrize("extra", [{"prompt_index": 1, "prompt": None}, {"prompt_index": 1, "prompt": 5}, {"answer": "16", "prompt": 5}])
def test_run_with_a_prompt_that_is_none_writes_nothing_and_does_not_crash(project, extra):
    path = project.record()
    key = {} if "prompt_index" in extra else {"match": "answer"}
    lines = [json.dumps({"completion": "<answer>16</answer>", **extra})]
    path.write_text("\n".join(lines) + "\n")
    if extra["prompt"] is None:
        assert run_inspection(project.write(), completions=path, quiet=True, **key)["signal"]["success"]["passed"] == 1
        return
    with pytest.raises(UserError, match="line 1"):
        run_inspection(project.write(), completions=path, quiet=True, **key)
    assert not (project.inspection / "samples.jsonl").exists()


def test_completions_take_the_form_of_training(read):
    chat = [{"role": "user", "content": "2+2=?"}]
    answer = [{"role": "assistant", "content": "a"}]
    samples = read(
        {"prompt_index": 0, "completion": "a"},
        {"prompt_index": 0, "completion": answer},
        {"prompt": chat, "completion": "a", "answer": "4"},
        {"prompt": chat, "completion": answer, "answer": "4"},
    )
    assert [s["completion"] for s in samples] == ["a", "a", answer, answer]


def test_missing_and_empty_files(read, tmp_path):
    with pytest.raises(UserError, match="there is no file"):
        read_recorded(tmp_path / "none.jsonl", [], [])
    with pytest.raises(UserError, match="is empty"):
        read("")


def test_a_row_number_is_the_files_where_others_are_held_out(project, capsys):
    project.data(20)
    project.write()
    project.config_path.write_text(project.config_path.read_text().replace("{train: train.jsonl}", "{train: train.jsonl, eval_split: 0.3}"))
    config = load_config(project.config_path)
    path = project.folder / "all.jsonl"
    path.write_text("".join(json.dumps({"prompt_index": i, "completion": f"<answer>{i + 15}</answer>"}) + "\n" for i in range(20)))
    rows = load_rows(config, "train")
    samples = import_recorded(path, config, build_rewards(config), rows)
    assert len(samples) == len(rows) < 20
    assert all(s["completion"] == f"<answer>{s['columns']['answer']}</answer>" and s["prompt"] == rows[s["prompt_index"]]["prompt"] for s in samples)
    assert f"{20 - len(rows)} of 20 completions in all.jsonl answer rows that are held out" in capsys.readouterr().err
    path.write_text('{"prompt_index": 20, "completion": "a"}\n')
    with pytest.raises(UserError, match="prompt_index is 20"):
        import_recorded(path, config, build_rewards(config), rows)
