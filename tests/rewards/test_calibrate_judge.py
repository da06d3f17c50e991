"""calibrate_judge.py: from labels to the file that a judge's config names, against a server in this process."""

from __future__ import annotations

import json

import calibrate_judge
import pytest
from conftest import write_rows
from grpo_rlvr.config import load_config
from grpo_rlvr.inspection.judge_labels import read_judge_labels
from grpo_rlvr.inspection.samples import samples_path
from grpo_rlvr.rewards import build_rewards, load_calibration
from judge_server import FAIL, Server, answer, by_word, labels, write_config


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server():
    with Server(by_word) as running:
        running.model = "llama-judge-1"
        yield running


def call(tmp_path, capsys, *options, rows=None):
    write_rows(tmp_path / "labels.jsonl", labels() if rows is None else rows)
    code = calibrate_judge.main([str(tmp_path / "config.yaml"), "--labels", str(tmp_path / "labels.jsonl"), "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def test_a_good_judge_gets_its_file_and_the_reward_builds(tmp_path, capsys, server):
    path = write_config(tmp_path, server.url)
    code, result = call(tmp_path, capsys)
    assert code == 0 and result["file"] == str(tmp_path / "judge.json")
    assert all(result[part][rate]["share"] == 1.0 > result[part][rate]["low"] for part in ("dev", "test") for rate in ("tpr", "tnr"))
    assert load_calibration(tmp_path / "judge.json")["judge"]["served_model"] == "llama-judge-1"
    (reward,) = build_rewards(load_config(path))
    assert reward.function(completions=["good 1"], prompts=["p"]) == [1.0]
    assert call(tmp_path, capsys, "--out", str(tmp_path / "other.json"))[1]["file"] == str(tmp_path / "other.json")
    assert load_calibration(tmp_path / "other.json")["judge"] == load_calibration(tmp_path / "judge.json")["judge"]


def test_a_judge_below_the_floor_gets_none(tmp_path, capsys):
    with Server(answer(FAIL)) as server:
        write_config(tmp_path, server.url)
        code, result = call(tmp_path, capsys)
    assert code == 1 and "TPR 0.00" in result["error"]["message"] and "not opened" in result["error"]["message"]
    assert not (tmp_path / "judge.json").exists()


def test_a_judge_that_says_nothing_is_not_called_a_bad_one(tmp_path, capsys):
    with Server(answer("I cannot say.")) as server:
        write_config(tmp_path, server.url)
        code, result = call(tmp_path, capsys)
    assert code == 1 and "no verdict on any of the" in result["error"]["message"] and "base_url" in result["error"]["fix"]
    assert "TPR" not in result["error"]["message"] and not (tmp_path / "judge.json").exists()


def test_labels_of_the_inspection_are_joined_with_its_samples(tmp_path, server):
    config = load_config(write_config(tmp_path, server.url))
    samples = [{"sample_id": f"s{i}", "prompt": f"p{i}", "completion": f"good {i}"} for i in range(3)]
    samples_path(config.inspection_folder).parent.mkdir(parents=True)
    write_rows(samples_path(config.inspection_folder), [{"schema": "header"}, *samples])
    said = [("s0", "pass", "ada"), ("s1", "pass", "ada"), ("s1", "fail", "ada"), ("s1", "pass", "bob")]
    said += [("s2", "pass", "ada"), ("s2", "withdrawn", "ada"), ("s2", "fail", "bob"), ("s2", "undone", "bob")]  # leave no label
    write_rows(tmp_path / "labels.jsonl", [{"sample_id": s, "label": v, "reviewer": r} for s, v, r in said])
    rows = read_judge_labels(tmp_path / "labels.jsonl", config)
    found = [(r["prompt"], r["completion"], r["label"]) for r in rows]
    assert found == [("p0", "good 0", "pass"), ("p1", "good 1", "fail"), ("p1", "good 1", "pass")]


@pytest.mark.parametrize(
    ("old", "new", "rows", "part"),
    [
        ("", "", [], "there are no labels"),
        ("", "", [{"label": "pass"}], "no completion"),
        ("", "", [{"sample_id": "x", "label": "pass"}], "no sample x"),
        ("", "", [{"completion": "a", "label": "maybe"}], "line 1: its label is 'maybe'"),
        ("", "", labels(10), "5 are needed"),
        ("use: judge", "use: nothing.py:f", labels(), "no reward `use: judge`"),
        ("model: llama-judge", "model: own-model", labels(), "family"),
        ("rubric_file: rubric.txt", "rubric_file: no.txt", labels(), "cannot be read"),
        ("rubric_file:", "nonsense: 1, rubric_file:", labels(), "nonsense"),
        (", calibration: judge.json", "", labels(), "--out"),
    ],
)
def test_mistakes_are_named_and_nothing_is_asked(tmp_path, capsys, server, old, new, rows, part):
    path = write_config(tmp_path, server.url)
    path.write_text(path.read_text().replace(old, new) if old else path.read_text())
    code, result = call(tmp_path, capsys, rows=rows)
    assert code == 2 and part in result["error"]["message"] + result["error"]["fix"]
    assert server.requests == [] and not (tmp_path / "judge.json").exists()


def test_people_see_both_parts_with_their_limits(tmp_path, capsys, server):
    write_config(tmp_path, server.url)
    write_rows(tmp_path / "labels.jsonl", labels())
    assert calibrate_judge.main([str(tmp_path / "config.yaml"), "--labels", str(tmp_path / "labels.jsonl")]) == 0
    shown = capsys.readouterr().err
    assert shown.count("TPR  1.00  95%") == 2 == shown.count("TNR  1.00  95%") and "judge.json" in shown
