from __future__ import annotations

import json

import inspect_rewards
import pytest
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.imported import import_labels
from grpo_rlvr.inspection.labels import append_label, labels_path, load_labels
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.select import load_selection

SAMPLES = [{"sample_id": "a"}, {"sample_id": "b"}]


def row(sample_id: str, label: str = "pass", at: str = "2026-01-01T10:00:00+00:00", **more) -> dict:
    made = {"schema": "grpo-rlvr/label/1", "sample_id": sample_id, "label": label, "reviewer": "eve", "reviewer_kind": "human", "at": at, "note": ""}
    return {**made, **more}


def write(path, *rows) -> None:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))


def test_a_second_import_adds_nothing_and_who_judged_stays(tmp_path):
    file, folder = tmp_path / "labels.jsonl", tmp_path / "inspection"
    write(file, row("a"), row("b", "fail", reviewer_kind="agent", reviewer="m", extra=1), row("a", "undone"), row("a", "unsure", note="hm"))
    assert import_labels(folder, file, SAMPLES) == {"added": 4, "known": 0, "outdated": 0}
    before = labels_path(folder).read_bytes()
    assert import_labels(folder, file, SAMPLES) == {"added": 0, "known": 4, "outdated": 0}
    assert labels_path(folder).read_bytes() == before
    got = [(x["sample_id"], x["label"], x["reviewer"], x["reviewer_kind"], x["note"], x["at"]) for x in load_labels(folder)]
    assert got == [("a", "unsure", "eve", "human", "hm", row("a")["at"]), ("b", "fail", "m", "agent", "", row("a")["at"])]
    assert "extra" not in labels_path(folder).read_text()


def test_an_old_file_undoes_nothing_that_was_said_since(tmp_path):
    append_label(tmp_path, "a", "fail", "eve", "human")  # now
    write(tmp_path / "old.jsonl", row("a", "pass"), row("b"))
    assert import_labels(tmp_path, tmp_path / "old.jsonl", SAMPLES) == {"added": 1, "known": 0, "outdated": 1}
    assert {x["sample_id"]: x["label"] for x in load_labels(tmp_path)} == {"a": "fail", "b": "pass"}


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([row("a"), row("zz")], "line 2: there is no sample 'zz'"),
        ([row("a", "good")], "label is 'good'"),
        ([row("a", reviewer_kind="cat")], "reviewer_kind is 'cat'"),
        ([row("a", at="yesterday")], "at is 'yesterday'"),
        ([row("a", at="2026-01-01T10:00:00")], "not a time with its zone"),
        ([row("a", "withdrawn")], "withdrawn with a note"),
        (["{torn"], "line 1: not JSON"),
        ([], "it has no labels"),
    ],
)
def test_all_or_nothing(tmp_path, rows, named):
    write(tmp_path / "bad.jsonl", row("a"), *rows) if rows and rows[0] != "{torn" else write(tmp_path / "bad.jsonl", *rows)
    with pytest.raises(UserError, match=named if "line 2" not in named else "line 3: there is no sample"):
        import_labels(tmp_path / "inspection", tmp_path / "bad.jsonl", SAMPLES)
    assert not labels_path(tmp_path / "inspection").exists()


def test_gate_takes_labels_in_first(project, capsys):
    run_inspection(project.write(), completions=project.record(), quiet=True)
    right = {s["sample_id"]: s["completion"].endswith(f">{s['columns']['answer']}</answer>") for s in load_selection(project.inspection)}
    rows = [row(sample_id, "pass" if passes else "fail") for sample_id, passes in right.items()]
    write(project.folder / "downloaded.jsonl", *rows)
    command = ["gate", str(project.config_path), "--labels", str(project.folder / "downloaded.jsonl"), "--json"]
    assert inspect_rewards.main(command) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["open"] and answer["imported"]["added"] == 6 and [r["reviewer"] for r in answer["readers"]] == ["eve"]
    assert inspect_rewards.main(command) == 0 and json.loads(capsys.readouterr().out)["imported"] == {"added": 0, "known": 6, "outdated": 0}
    assert inspect_rewards.main([*command[:2], "--labels", "nowhere.jsonl"]) == 2
