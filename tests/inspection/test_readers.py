"""Several readers, labels that were changed, withdrawn or undone, and what the gate makes of them."""

from __future__ import annotations

import json

import inspect_rewards
import pytest
from grpo_rlvr.config import load_config
from grpo_rlvr.inspection.gate import decide_gate
from grpo_rlvr.inspection.labels import append_label
from grpo_rlvr.inspection.readers import summarise_readers
from grpo_rlvr.inspection.reading import Reading
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.select import load_selection


def judgement(sample_id: str, label: str, reviewer: str = "ada", kind: str = "human", first: str | None = None, note: str = "") -> dict:
    at = f"2026-01-01T10:00:0{len(sample_id)}+00:00"
    made = {"sample_id": sample_id, "label": label, "reviewer": reviewer, "reviewer_kind": kind, "at": at, "note": note}
    return {**made, "first": first or (label if label in ("pass", "fail", "unsure") else None)}


def test_two_readers_by_hand():
    ada = [judgement(str(i), "pass" if i < 25 else "fail") for i in range(50)]
    ben = [judgement(str(i), "pass" if i < 20 or i >= 40 else "fail", "ben") for i in range(50)]
    pair = summarise_readers(ada + ben + [judgement("0", "fail", "cid", "agent")], {str(i): True for i in range(50)}, ["human"])["between"]
    assert len(pair) == 1 and pair[0]["reviewers"] == ["ada", "ben"] and (pair[0]["both_read"], pair[0]["same"]) == (50, 35)
    assert pair[0]["agreement"] == 0.7 and pair[0]["kappa"] == pytest.approx(0.4)  # the textbook table: (0.7 - 0.5) / 0.5
    assert pair[0]["interval"] == pytest.approx([0.5539, 0.8214], abs=1e-4) and pair[0]["differ"] == [
        str(i) for i in [*range(20, 25), *range(40, 50)]
    ]


def test_who_read_and_whether_it_counts():
    rows = [judgement("a", "pass"), judgement("bb", "withdrawn", first="fail", note="typo in the gold"), judgement("a", "fail", "bot", "agent")]
    rows += [judgement("elsewhere", "pass")]
    got = summarise_readers(rows, {"a": True, "bb": True, "c": None}, ["human"])
    assert [(r["reviewer"], r["kind"], r["counts"], r["labels"], r["withdrawn"]) for r in got["readers"]] == [
        ("ada", "human", True, 1, 1),
        ("bot", "agent", False, 1, 0),
    ]
    assert (got["readers"][0]["from"], got["readers"][0]["to"]) == ("2026-01-01T10:00:01+00:00", "2026-01-01T10:00:02+00:00")
    assert got["withdrawn"] == [{"sample_id": "bb", "reviewer": "ada", "note": "typo in the gold", "at": "2026-01-01T10:00:02+00:00"}]
    first = got["first_labels"]
    assert (first["compared"], first["agreements"], first["withdrawn"], first["changed"]) == (2, 1, 1, 0)


@pytest.fixture
def inspected(project, label_all):
    run_inspection(project.write(), completions=project.record(), quiet=True)
    label_all(project.inspection)
    return project


def gate_of(project) -> dict:
    return decide_gate(load_config(project.config_path))


def wrong(project) -> str:
    """A sample on which ada now contradicts the reward."""
    first = load_selection(project.inspection)[0]
    passes = first["completion"].endswith(f">{first['columns']['answer']}</answer>")
    append_label(project.inspection, first["sample_id"], "fail" if passes else "pass", "ada", "human")
    return first["sample_id"]


def test_a_withdrawn_label_resolves_a_disagreement_and_is_shown(inspected, capsys):
    sample_id = wrong(inspected)
    assert "disagree on 1 samples" in gate_of(inspected)["reasons"][0]
    append_label(inspected.inspection, sample_id, "withdrawn", "ada", "human", "the gold has a typo")
    gate = gate_of(inspected)
    assert gate["open"] and gate["counts"]["withdrawn"] == 1 and gate["counts"]["read"] == 5 and gate["counts"]["disagreements"] == 0
    assert gate["withdrawn"][0]["note"] == "the gold has a typo" and [w for w in gate["warnings"] if "the gold has a typo" in w]
    inspect_rewards.main(["gate", str(inspected.config_path)])
    assert "the gold has a typo" in capsys.readouterr().err


def test_withdrawing_does_not_help_against_too_few_labels(inspected):
    for sample in load_selection(inspected.inspection)[:3]:
        append_label(inspected.inspection, sample["sample_id"], "withdrawn", "ada", "human", "no time")
    assert gate_of(inspected)["reasons"][0].startswith("3 of 4 samples have been read")


def test_undoing_a_disagreement_without_judging_again_keeps_it_shut(inspected):
    sample_id = wrong(inspected)
    append_label(inspected.inspection, sample_id, "undone", "ada", "human")
    gate = gate_of(inspected)
    assert gate["reasons"] == ["1 labels were undone and not given again: judge these samples, or withdraw the label with a note"]
    reading = Reading.open(load_config(inspected.config_path), "ada")
    assert sample_id in reading.places and reading.waiting() == reading.places[sample_id]
    # Even when a later selection left it out, its reader finds it.
    path = inspected.inspection / "selection.json"
    selection = json.loads(path.read_text())
    path.write_text(json.dumps({**selection, "sample_ids": [i for i in selection["sample_ids"] if i != sample_id]}))
    assert sample_id in Reading.open(load_config(inspected.config_path), "ada").places
    append_label(inspected.inspection, sample_id, "unsure", "ada", "human")
    assert gate_of(inspected)["open"]


def test_labels_changed_after_the_score_was_seen_are_said(inspected):
    right = next(s for s in load_selection(inspected.inspection) if s["completion"].endswith(f">{s['columns']['answer']}</answer>"))
    append_label(inspected.inspection, right["sample_id"], "fail", "ben", "human")
    append_label(inspected.inspection, right["sample_id"], "pass", "ben", "human")
    gate = gate_of(inspected)
    assert gate["open"] and gate["first_labels"]["changed"] == 1 and gate["first_labels"]["agreements"] == 6 and gate["first_labels"]["compared"] == 7
    assert [w for w in gate["warnings"] if w.startswith("1 labels contradicted the reward") and w.endswith("changed after the score was seen")]
    assert gate["between"][0]["reviewers"] == ["ada", "ben"] and gate["between"][0]["both_read"] == 1


def test_the_selections_weights_are_used_where_it_has_them(inspected):
    path = inspected.inspection / "selection.json"
    selection = json.loads(path.read_text())
    path.write_text(json.dumps({**selection, "rows": [{**row, "weight": 2.5} for row in selection["rows"]]}))
    weighted = gate_of(inspected)["agreement"]["weighted"]
    assert (weighted["weights"], weighted["agreement"], weighted["effective_size"]) == ("selection", 1.0, pytest.approx(6))
    for bad in (
        [],
        [1],
        [{"sample_id": "x"}],
        [{**row, "weight": "much"} for row in selection["rows"]],
        [{**row, "weight": -1} for row in selection["rows"]],
        None,
    ):
        path.write_text(json.dumps({**selection, "rows": bad}))
        assert gate_of(inspected)["agreement"]["weighted"]["weights"] == "verdict"
