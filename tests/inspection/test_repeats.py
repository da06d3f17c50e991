"""`run` on data that asks the same twice."""

from __future__ import annotations

import json

import inspect_rewards


def run(project, capsys, *rows: dict) -> tuple[dict, str]:
    path = project.folder / "train.jsonl"
    project.data()
    path.write_text(path.read_text() + "".join(json.dumps(row) + "\n" for row in rows))
    project.write()
    assert inspect_rewards.main(["run", str(project.config_path), "--completions", str(project.record()), "--json"]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


def test_run_names_repeated_prompts_and_two_golds_by_row(project, capsys):
    result, said = run(project, capsys, {"prompt": "11+5=?", "answer": "16"}, {"prompt": "10+5=?", "answer": "99"})
    assert [(f["check"], f["severity"], f["rows"]) for f in result["repeats"]] == [
        ("two_golds", "warning", [0, 7]),
        ("repeated_prompts", "note", [0, 1, 6, 7]),
    ]
    assert "warning: 1 row of data.train repeats an earlier prompt with another gold: 0 and 7 (from 0)" in said
    assert "note: 2 of 8 rows of data.train repeat an earlier prompt: 1 and 6, 0 and 7 (from 0)" in said
    assert [w for w in result["warnings"] if "another gold: 0 and 7" in w]


def test_run_is_silent_where_no_prompt_stands_twice(project, capsys):
    result, said = run(project, capsys)
    assert result["repeats"] == [] and "earlier prompt" not in said
