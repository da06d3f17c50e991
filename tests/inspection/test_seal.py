"""An edited gate file, and labels that vanished or changed, do not let training start."""

from __future__ import annotations

import json

import pytest
from grpo_rlvr.config import load_config
from grpo_rlvr.errors import CheckFailed, UserError
from grpo_rlvr.inspection import seal
from grpo_rlvr.inspection.gate import check_gate, decide_gate
from grpo_rlvr.inspection.labels import append_label, labels_path
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.select import load_selection


@pytest.fixture
def decided(project, label_all):
    """An open gate."""
    run_inspection(project.write(), completions=project.record(), quiet=True)
    label_all(project.inspection)
    assert decide_gate(load_config(project.config_path))["open"]
    check_gate(load_config(project.config_path))
    return project


def edit(project, change) -> None:
    path = project.inspection / "gate.json"
    gate = json.loads(path.read_text())
    change(gate)
    path.write_text(json.dumps(gate))


def refused(project, words: str) -> None:
    with pytest.raises(CheckFailed, match=words) as caught:
        check_gate(load_config(project.config_path))
    assert caught.value.exit_code == 1 and "gate CONFIG" in str(caught.value)


def test_a_shut_gate_that_is_edited_open_stays_shut(decided):
    first = load_selection(decided.inspection)[0]
    passes = first["completion"].endswith(f">{first['columns']['answer']}</answer>")
    append_label(decided.inspection, first["sample_id"], "fail" if passes else "pass", "ada", "human")
    assert not decide_gate(load_config(decided.config_path))["open"]
    edit(decided, lambda gate: gate.update(open=True))
    refused(decided, "it says open and gives reasons against it")
    edit(decided, lambda gate: gate.update(reasons=[]))
    refused(decided, "it was edited by hand")


@pytest.mark.parametrize(
    "change",
    [
        lambda gate: gate["counts"].update(read=60),
        lambda gate: gate.update(reviewers=["ada", "ben"]),
        lambda gate: gate.update(reviewer_kind="human+human"),
        lambda gate: gate["agreement"].update(kappa=0.99),
        lambda gate: gate["labels"].update(judgements=99),
        lambda gate: gate.update(warnings=[]),
        lambda gate: gate.update(more=1),
    ],
)
def test_any_edit_is_noticed(decided, change):
    edit(decided, change)
    refused(decided, "it was edited by hand")


def test_a_reformatted_file_is_the_same(decided):
    path = decided.inspection / "gate.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=7, sort_keys=True))
    assert check_gate(load_config(decided.config_path))["open"]


def test_labels_that_vanished_or_changed_are_noticed(decided):
    path = labels_path(decided.inspection)
    lines = path.read_text().splitlines(keepends=True)
    path.unlink()
    refused(decided, "the labels it rests on are gone")
    path.write_text("".join(lines[:-1]))
    refused(decided, r"labels.jsonl changed since the gate was decided \(6 judgements then, 5 now\)")
    path.write_text("".join(lines).replace('"pass"', '"unsure"', 1))
    refused(decided, "changed since")
    path.write_text("".join(reversed(lines)))  # the same said in another order
    assert check_gate(load_config(decided.config_path))["open"]
    append_label(decided.inspection, load_selection(decided.inspection)[0]["sample_id"], "fail", "ben", "human")
    refused(decided, "7 now")  # another reader's objection is not passed over
    path.write_text("".join(lines) + "{torn")
    with pytest.raises(UserError, match="line 7: not JSON"):
        check_gate(load_config(decided.config_path))


def test_a_seal_that_was_made_anew_does_not_help_against_missing_labels(decided):
    path = labels_path(decided.inspection)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))

    def forge(gate):
        gate["labels"] = {**gate["labels"], **seal.sealed({}, decided.inspection, decided.inspection / "gate.json")["labels"]}
        gate["seal"] = seal._seal({k: v for k, v in gate.items() if k not in ("schema", "seal")})

    edit(decided, forge)
    refused(decided, "it counts 6 samples that were read, and labels.jsonl has 2")


def test_a_gate_file_elsewhere_finds_its_labels(project, label_all):
    run_inspection(project.write(), completions=project.record(), quiet=True)
    label_all(project.inspection)
    project.config_path.write_text(project.config_path.read_text().replace("folder: runs/one", "folder: runs/one, gate: gates/mine.json"))
    config = load_config(project.config_path)
    assert decide_gate(config)["labels"]["file"] == "../runs/one/inspection/labels.jsonl"
    assert check_gate(config)["open"]
    text = project.config_path.read_text().replace("folder: runs/one", "folder: runs/two")  # a later run under the same gate
    project.config_path.write_text(text)
    assert check_gate(load_config(project.config_path))["open"]


def test_a_gate_of_an_older_version_is_decided_again(decided):
    edit(decided, lambda gate: gate.pop("seal"))
    with pytest.raises(UserError, match="not a gate file of this version"):
        check_gate(load_config(decided.config_path))
