from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest
from conftest import ROOT, write_rows
from grpo_rlvr.config import load_config
from grpo_rlvr.data import check_rows, load_rows, to_dataset
from grpo_rlvr.errors import GoldError, UserError
from grpo_rlvr.rewards import build_rewards


def rows_of(project, text_or_rows, name="train.jsonl", config_edit=("", "")):
    if isinstance(text_or_rows, str):
        (project / name).write_text(text_or_rows, encoding="utf-8")
    else:
        write_rows(project / name, text_or_rows)
    path = project / "config.yaml"
    path.write_text(path.read_text().replace("train: train.jsonl", f"train: {name}").replace(*config_edit))
    return load_rows(load_config(path), "train")


def test_rows_keep_file_order_and_get_ids(project):
    rows = load_rows(load_config(project / "config.yaml"), "train")
    assert [r["row_id"] for r in rows] == [f"train:{i}" for i in range(40)]
    assert rows[3]["answer"] == "4"
    assert rows[3]["prompt"] == [{"role": "user", "content": "3+1=?"}]


def test_columns_are_renamed_and_system_prompt_is_put_first(project):
    edit = ("data: {", "data: {columns: {prompt: question, answer: solution}, system_prompt: Be brief., ")
    write_rows(project / "eval.jsonl", [{"question": "2+2?", "solution": "4"}])
    rows = rows_of(project, [{"question": "1+1?", "solution": "2", "level": 3}], config_edit=edit)
    assert rows == [
        {"row_id": "train:0", "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}], "answer": "2", "level": 3}
    ]


def test_nested_and_mixed_columns_become_text_that_arrow_keeps(project):
    rows = rows_of(project, [{"prompt": "a", "answer": 1, "schema": {"x": 1}}, {"prompt": "b", "answer": "two", "schema": {"y": [2]}}])
    assert [r["answer"] for r in rows] == ["1", "two"]
    assert [json.loads(r["schema"]) for r in to_dataset(rows)] == [{"x": 1}, {"y": [2]}]


def test_held_out_rows_that_are_none_are_said_to_be_none(project):
    (project / "eval.jsonl").write_text("\n")
    for split in ("train", "eval"):
        with pytest.raises(UserError, match="data.eval: eval.jsonl holds no rows"):
            load_rows(load_config(project / "config.yaml"), split)


def test_image_columns_do_not_reach_trl(project):
    rows = rows_of(project, [{"prompt": "a", "answer": "1", "image": None}])
    assert "image" not in to_dataset(rows).column_names


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("", "train.jsonl", ["holds no rows"]),
        ('{"prompt": "a", "answer": "1"}\n{"prompt": \n[3]\n', "train.jsonl", ["line 2", "line 3", "not JSON", "a list, not an object"]),
        ([{"question": "a", "answer": "1"}], "train.jsonl", ["no column 'prompt'", "answer, question"]),
        (
            [{"prompt": "a"}, {"prompt": "  "}, {"prompt": None}, {"prompt": []}],
            "train.jsonl",
            ["row 1", "empty", "row 2", "missing", "row 3", "no messages"],
        ),
        ([{"prompt": "a"}, {"prompt": [{"role": "user", "content": "b"}]}], "train.jsonl", ["row 0", "one format"]),
        ([{"prompt": [{"content": "b"}]}], "train.jsonl", ["row 0", "lacks role"]),
        ([{"prompt": "a", "completions": 1}], "train.jsonl", ["'completions' is reserved"]),
        ("prompt,answer\na,1\nb\n", "train.csv", ["row 1", "fields"]),
        ('{"prompt": "a"}', "train.json", ["list of objects"]),
        ("x", "train.txt", ["'.txt'"]),
        ([{"prompt": "a"}, {"prompt": "b", "image": "b.png"}], "train.jsonl", ["row 1", "column image", "text models"]),
        (
            [{"prompt": [{"role": "user", "content": [{"type": "image", "image": "b.png"}, {"type": "text", "text": "b"}]}]}],
            "train.jsonl",
            ["row 0", "a part of a message", "text models"],
        ),
        ("not parquet", "train.parquet", ["Parquet"]),
    ],
)
def test_bad_data_is_one_clear_error(project, content, name, words):
    with pytest.raises(UserError) as error:
        rows_of(project, content, name)
    assert error.value.kind == "data"
    for word in words:
        assert word in str(error.value)


def test_bytes_that_are_no_text_are_named(project):
    (project / "train.jsonl").write_bytes(b'{"prompt": "\xff"}\n')
    with pytest.raises(UserError, match="not UTF-8"):
        load_rows(load_config(project / "config.yaml"), "train")


def test_a_file_that_is_not_there_is_named_with_the_place_looked_at(project):
    (project / "train.jsonl").unlink()
    with pytest.raises(UserError, match="is not there") as error:
        load_rows(load_config(project / "config.yaml"), "train")
    assert str(project / "train.jsonl") in str(error.value)


def test_a_column_missing_from_the_data_is_an_error_naming_those_that_are_there(project):
    with pytest.raises(UserError, match="no column 'solution'; it has: answer, prompt"):
        rows_of(project, [{"prompt": "a", "answer": "1"}], config_edit=("data: {", "data: {columns: {answer: solution}, "))


TURNS = [{"role": "assistant", "content": "a"}]


@pytest.mark.parametrize(
    ("row", "columns", "words"),
    [
        ({"prompt": "p", "chosen": "a", "rejected": "b"}, "{}", ["preference data (chosen, rejected)", "DPOTrainer", "data.columns: {answer: NAME}"]),
        ({"prompt": "p", "chosen": TURNS, "rejected": TURNS}, "{answer: chosen}", ["'chosen' is no gold", "DPOTrainer"]),
        ({"prompt": "p", "chosen": "a", "rejected": "b", "other": "c"}, "{note: other}", ["preference data (chosen, rejected)", "DPOTrainer"]),
        ({"prompt": "p", "completion": "a", "label": False}, "{}", ["preference data (completion, label)", "KTOTrainer"]),
        ({"prompt": "p", "completion": "a", "label": False}, "{answer: label}", ["'label' is no gold", "KTOTrainer"]),
        ({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}, "{prompt: messages}", ["SFTTrainer"]),
        ({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}, "{}", ["(conversations)", "SFTTrainer"]),
    ],
)
def test_data_for_another_way_of_training_is_named_with_its_trainer(project, row, columns, words):
    with pytest.raises(UserError) as error:
        rows_of(project, [row] * 3, config_edit=("data: {", f"data: {{columns: {columns}, "))
    (problem,) = error.value.problems
    assert problem.where == "data.train"
    for word in words:
        assert word in str(problem)


@pytest.mark.parametrize(
    ("row", "columns", "gold"),
    [
        ({"prompt": "true?", "completion": "a text to judge", "label": False}, "{answer: label, context: completion}", False),
        ({"prompt": "A or B?", "chosen": "A", "rejected": "B"}, "{answer: chosen}", "A"),
        ({"prompt": "A or B?", "chosen": 1, "rejected": 2}, "{answer: chosen}", 1),
    ],
)
def test_a_gold_that_is_mapped_by_hand_is_taken_at_its_word(project, row, columns, gold):
    write_rows(project / "eval.jsonl", [row])
    rows = rows_of(project, [row], config_edit=("data: {", f"data: {{columns: {columns}, "))
    assert rows[0]["answer"] == gold


def test_preference_data_with_golds_of_its_own_is_read(project):
    row = {"prompt": "p", "completion": "a", "label": False, "gold": "1"}
    write_rows(project / "eval.jsonl", [row])
    rows = rows_of(project, [row], config_edit=("data: {", "data: {columns: {answer: gold, my_completion: completion}, "))
    assert rows[0]["answer"] == "1" and rows[0]["my_completion"] == "a"


@dataclass(frozen=True)
class Needs:
    name: str = "needs"
    columns: tuple[str, ...] = ("answer",)

    def gold_problem(self, row):
        return None if row["answer"].isdigit() else f"answer is no number: {row['answer']}"


def test_unreadable_gold_is_refused_with_row_numbers():
    rows = [{"prompt": "a", "answer": a} for a in ["1", "x", "2", "x", "y"]]
    with pytest.raises(GoldError) as error:
        check_rows([Needs()], rows)
    assert [(p.where, p.message) for p in error.value.problems] == [
        ("data.train rows 1, 3 (from 0)", "reward 'needs': answer is no number: x"),
        ("data.train row 4 (from 0)", "reward 'needs': answer is no number: y"),
    ]


def test_a_reward_without_its_column_is_refused():
    with pytest.raises(UserError, match="needs the column 'answer'; the data has: gold"):
        check_rows([Needs()], [{"prompt": "a", "gold": "1"}])


def test_training_and_held_out_golds_have_one_type(project):
    write_rows(project / "train.jsonl", [{"prompt": "a", "answer": 16}, {"prompt": "b", "answer": 22.5}])
    write_rows(project / "eval.jsonl", [{"prompt": "c", "answer": 7}, {"prompt": "d", "answer": 8}])
    config = load_config(project / "config.yaml")
    assert [r["answer"] for split in ("train", "eval") for r in load_rows(config, split)] == ["16", "22.5", "7", "8"]
    assert [r["answer"] for r in load_rows(config, "eval", limit=1)] == ["7"]
    write_rows(project / "train.jsonl", [{"prompt": "a", "answer": 16}])
    assert [r["answer"] for split in ("train", "eval") for r in load_rows(config, split)] == [16, 7, 8]


@pytest.mark.parametrize("values", [[3, 2.5], [1, "a"], [2**70, 1], [[1, 2], [2.5]], [{"a": 1}, {"b": None}], [True, 1], [None, 4], [["a"], [1]]])
def test_arrow_gives_back_what_inspection_sees(project, values):
    rows = rows_of(project, [{"prompt": "p", "answer": v} for v in values])
    assert list(to_dataset(rows)) == rows
    assert [type(r["answer"]) for r in to_dataset(rows)] == [type(r["answer"]) for r in rows]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_nothing_behind_the_limit_is_read(project, kind):
    rows = [{"prompt": f"{i}+1?", "answer": str(i + 1)} for i in range(5)]
    path = project / f"train.{kind}"
    if kind == "parquet":
        to_dataset(rows).to_parquet(path)
    else:
        lines = [json.dumps(row) for row in rows] if kind == "jsonl" else ["prompt,answer", *(f"{r['prompt']},{r['answer']}" for r in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if kind != "parquet":
        with open(path, "ab") as file:  # two buffers on, a byte that is no UTF-8
            file.write(b" " * 100_000 + b"\n\xff\n")
    config = project / "config.yaml"
    config.write_text(config.read_text().replace("train: train.jsonl", f"train: {path.name}, limit: 3"))
    assert [row["answer"] for row in load_rows(load_config(config), "train")] == ["1", "2", "3"]


def test_rows_keep_their_numbers_where_others_are_held_out(project):
    rows = [{"prompt": f"{i}+1?", "answer": "" if i in (17, 31) else str(i + 1)} for i in range(40)]
    config = project / "config.yaml"
    config.write_text(config.read_text().replace("eval: eval.jsonl", "eval_split: 0.2").replace("{use: exact}", "{use: math}"))
    write_rows(project / "train.jsonl", rows)
    config = load_config(config)
    train, held_out = load_rows(config, "train"), load_rows(config, "eval")
    assert all(row["prompt"] == rows[int(row["row_id"].partition(":")[2])]["prompt"] for row in [*train, *held_out])
    bad = []
    for place, part in (("data.train", train), ("data.eval", held_out)):
        try:
            check_rows(build_rewards(config), part, place)
        except GoldError as exc:
            bad += [p.where for p in exc.problems]
    assert sorted(int(n) for where in bad for n in re.findall(r"\d+", where.removesuffix("(from 0)"))) == [17, 31]


def test_a_data_set_of_a_hub_that_is_not_there_is_refused_without_retries(project):
    known = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY")}
    path = project / "config.yaml"
    path.write_text(path.read_text().replace("train: train.jsonl", "train: owner/not-here"))
    code = "import sys; from grpo_rlvr.config import load_config as c; from grpo_rlvr.data import load_rows; load_rows(c(sys.argv[1]), 'train')"
    env = {**known, "HF_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=env, timeout=300)
    assert "'owner/not-here' is neither a file nor a data set that could be loaded" in done.stderr, done.stderr
    assert "the hub does not answer" in done.stderr and "Retrying" not in done.stderr
