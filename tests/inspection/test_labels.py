from __future__ import annotations

import json
import threading

import pytest
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.jsonl import Tail
from grpo_rlvr.inspection.labels import append_label, labels_path, load_judgements, load_labels, repair_labels


def test_last_word_of_a_reviewer_wins(tmp_path):
    append_label(tmp_path, "a", "pass", "ada", "human")
    append_label(tmp_path, "a", "fail", "ben", "human", "unit missing")
    append_label(tmp_path, "a", "unsure", "ada", "human")
    got = {(x["sample_id"], x["reviewer"]): (x["label"], x["revised"], x["note"]) for x in load_labels(tmp_path)}
    assert got == {("a", "ada"): ("unsure", True, ""), ("a", "ben"): ("fail", False, "unit missing")}
    line = json.loads(labels_path(tmp_path).read_text().splitlines()[0])
    assert line["schema"] == "grpo-rlvr/label/1" and line["at"].endswith("+00:00")


@pytest.mark.parametrize(("label", "kind", "named"), [("good", "human", "label is 'good'"), ("pass", "cat", "reviewer_kind is 'cat'")])
def test_a_wrong_label_is_not_written(tmp_path, label, kind, named):
    with pytest.raises(UserError, match=named):
        append_label(tmp_path, "a", label, "ada", kind)
    assert not labels_path(tmp_path).exists()


def test_torn_line_is_named_then_moved_aside(tmp_path):
    append_label(tmp_path, "a", "pass", "ada", "human")
    with open(labels_path(tmp_path), "a") as out:
        out.write('{"schema": "grpo-rlvr/label/1", "sample_id": "b", "lab')
    with pytest.raises(UserError, match=r"labels\.jsonl line 2: not JSON.*\n.*review") as caught:
        load_labels(tmp_path)
    assert caught.value.kind == "labels"
    beside = repair_labels(tmp_path)
    assert '"sample_id": "b", "lab' in beside.read_text()
    assert [x["sample_id"] for x in load_labels(tmp_path)] == ["a"]
    assert repair_labels(tmp_path) is None


def test_appending_after_a_torn_line_loses_only_that_line(tmp_path):
    labels_path(tmp_path).write_text('{"torn')
    append_label(tmp_path, "b", "fail", "ada", "human")
    repair_labels(tmp_path)
    assert [(x["sample_id"], x["label"]) for x in load_labels(tmp_path)] == [("b", "fail")]


def test_a_line_of_another_kind_is_named(tmp_path):
    append_label(tmp_path, "a", "pass", "ada", "human")
    with open(labels_path(tmp_path), "a") as out:
        out.write('{"schema": "grpo-rlvr/label/1", "sample_id": "b", "label": "maybe", "reviewer": "ada", "reviewer_kind": "human"}\n[1]\n')
    with pytest.raises(UserError) as caught:
        load_labels(tmp_path)
    assert [p.where.rpartition(" ")[2] for p in caught.value.problems] == ["2", "3"]


def test_repairing_while_others_append_loses_no_label(tmp_path):
    done = threading.Event()

    def tear_and_repair() -> None:
        while not done.is_set():
            with open(labels_path(tmp_path), "ab") as out:
                out.write(b"\n{torn\n")
            repair_labels(tmp_path)

    append_label(tmp_path, "first", "pass", "ada", "human")
    repairing = threading.Thread(target=tear_and_repair)
    repairing.start()
    try:
        for i in range(150):
            append_label(tmp_path, f"s{i}", "pass", "ada", "human")
    finally:
        done.set()
        repairing.join()
    repair_labels(tmp_path)
    assert len(load_labels(tmp_path)) == 151


def test_a_label_that_is_taken_back_does_not_hold(tmp_path):
    append_label(tmp_path, "a", "pass", "ada", "human")
    append_label(tmp_path, "b", "fail", "ada", "human")
    append_label(tmp_path, "a", "withdrawn", "ada", "human", "the gold is wrong")
    append_label(tmp_path, "b", "undone", "ada", "human")
    assert load_labels(tmp_path) == []
    got = [(x["sample_id"], x["label"], x["first"], x["revised"], x["turn"]) for x in load_judgements(tmp_path)]
    assert got == [("a", "withdrawn", "pass", False, 2), ("b", "undone", "fail", False, 2)]
    append_label(tmp_path, "b", "fail", "ada", "human")
    assert [(x["sample_id"], x["revised"]) for x in load_labels(tmp_path)] == [("b", False)]  # a slip, and then the same again
    append_label(tmp_path, "b", "pass", "ada", "human")
    assert [(x["label"], x["first"], x["revised"]) for x in load_labels(tmp_path)] == [("pass", "fail", True)]


@pytest.mark.parametrize(
    ("label", "note", "named"), [("withdrawn", " ", "with a note"), ("pass", "x" * 4001, "4,001 characters"), ("gone", "", "label is 'gone'")]
)
def test_what_a_note_must_be(tmp_path, label, note, named):
    with pytest.raises(UserError, match=named):
        append_label(tmp_path, "a", label, "ada", "human", note)
    assert not labels_path(tmp_path).exists()


def test_a_tail_waits_for_whole_lines_and_starts_again_with_another_file(tmp_path):
    path = tmp_path / "labels.jsonl"
    tail = Tail(path)
    assert tail.read() == ([], False)
    path.write_text('{"a": 1}\n{"b"')
    lines, anew = tail.read()
    assert [line.value for line in lines] == [{"a": 1}] and anew
    assert tail.read() == ([], False)
    with open(path, "a") as out:
        out.write(': 2}\n\n[torn\n{"c": 3}\n')
    lines, anew = tail.read()
    assert [line.value for line in lines] == [{"b": 2}, None, {"c": 3}] and not anew
    path.with_name("new").write_text('{"d": 4}\n')
    path.with_name("new").replace(path)
    lines, anew = tail.read()
    assert [line.value for line in lines] == [{"d": 4}] and anew
    path.unlink()
    assert tail.read() == ([], True) and tail.read() == ([], False)
