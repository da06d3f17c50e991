from __future__ import annotations

import io
import json
import shutil

import inspect_rewards
import pytest
from conftest import ROOT
from documents import spans, text_of
from grpo_rlvr.config import load_config
from grpo_rlvr.errors import CheckFailed, UserError
from grpo_rlvr.inspection.gate import check_gate, decide_gate
from grpo_rlvr.inspection.labels import append_label, labels_path
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.samples import load_samples
from grpo_rlvr.inspection.select import load_selection

from inspection.conftest import completion


@pytest.fixture
def inspected(project):
    """A project after `run`, with half of the completions right."""
    run_inspection(project.write(), completions=project.record(), quiet=True)
    return project


def config_of(project):
    return load_config(project.config_path)


def test_opens_when_enough_was_read_and_all_agree(inspected, label_all):
    label_all(inspected.inspection)
    gate = decide_gate(config_of(inspected))
    assert gate["open"] is True and gate["reasons"] == []
    assert gate["counts"] == {
        "samples": 16, "read": 6, "pass": 3, "fail": 3, "unsure": 0, "needed": 4, "disagreements": 0, "revised": 0,
        "withdrawn": 0, "undone": 0, "not_counted": {}, "of_other_samples": 0,
    }  # fmt: skip
    assert (gate["reviewer_kind"], gate["reviewers"], gate["signal"]) == ("human", ["ada"], "go")
    assert gate["agreement"]["kappa"] == 1.0 and gate["agreement"]["upper_bounds"]["pass"] == pytest.approx(1 - 0.05 ** (1 / 3))
    stored = json.loads((inspected.inspection / "gate.json").read_text())
    assert stored == json.loads(json.dumps(gate)) and stored["schema"] == "grpo-rlvr/gate/1" and stored["sampling"] == {"source": "recorded"}
    listed = text_of(ROOT / "references" / "inspection.md").partition("\n`gate.json`: ")[2].partition("\n\n")[0]
    assert set(spans(listed)) == set(stored)
    assert [w[:43] for w in check_gate(config_of(inspected))["warnings"]] == ["the completions were recorded elsewhere: no"]


def test_shut_without_enough_labels(inspected, label_all):
    label_all(inspected.inspection, count=3)
    gate = decide_gate(config_of(inspected))
    assert gate["open"] is False and gate["reasons"] == ["3 of 4 samples have been read by a person"]
    with pytest.raises(CheckFailed, match="3 of 4 samples"):
        check_gate(config_of(inspected))


def test_labels_of_other_kinds_are_named_but_do_not_count(inspected, label_all):
    label_all(inspected.inspection, kind="agent", reviewer="model-x")
    gate = decide_gate(config_of(inspected))
    assert gate["counts"]["read"] == 0 and gate["counts"]["not_counted"] == {"agent": 6}
    assert gate["reasons"] == ["0 of 4 samples have been read by a person; 6 by agent do not count"]
    inspected.write(more=", reviewers: [human, agent]")
    assert decide_gate(config_of(inspected))["open"] is True
    assert check_gate(config_of(inspected))["reviewer_kind"] == "agent"
    inspected.write()
    with pytest.raises(CheckFailed, match="read by agent; inspection.reviewers allows human"):
        check_gate(config_of(inspected))


def test_one_disagreement_shuts_it_and_is_shown(inspected, label_all, capsys):
    label_all(inspected.inspection)
    wrong = next(s for s in load_selection(inspected.inspection) if s["completion"] == completion(s["columns"]["answer"], s["completion"][11:16]))
    append_label(inspected.inspection, wrong["sample_id"], "fail", "ada", "human")
    assert inspect_rewards.main(["gate", str(inspected.config_path)]) == 1
    shown = capsys.readouterr().err
    assert "gate: SHUT" in shown and "disagree on 1 samples (1 wrong ones paid, 0 right ones not)" in shown and wrong["completion"] in shown
    gate = json.loads((inspected.inspection / "gate.json").read_text())
    assert gate["worst"]["sample_id"] == wrong["sample_id"] and gate["counts"]["disagreements"] == 1 and gate["counts"]["revised"] == 1
    append_label(inspected.inspection, wrong["sample_id"], "pass", "ada", "human")  # a slip of the finger, taken back
    assert inspect_rewards.main(["gate", str(inspected.config_path)]) == 0


def test_the_worst_is_a_wrong_completion_that_is_paid(inspected, label_all):
    label_all(inspected.inspection, judge=lambda s: "fail" if s["completion"].endswith(f">{s['columns']['answer']}</answer>") else "pass")
    gate = decide_gate(config_of(inspected))
    assert "6 samples (3 wrong ones paid, 3 right ones not)" in gate["reasons"][0] and gate["agreement"]["kappa"] == -1.0
    assert (gate["worst"]["label"], gate["worst"]["verdict"], gate["worst"]["total"]) == ("fail", True, 1.0)


def test_scores_of_samples_with_another_gold_are_refused(inspected):
    path = inspected.inspection / "samples.jsonl"
    path.write_text(path.read_text().replace('"answer": "15"', '"answer": "16"', 1))
    with pytest.raises(UserError, match="they belong to other samples"):
        decide_gate(config_of(inspected))


def test_a_second_readers_objection_is_not_outvoted(inspected, label_all):
    label_all(inspected.inspection)
    first = load_selection(inspected.inspection)[0]
    truth = first["completion"].endswith(f">{first['columns']['answer']}</answer>")
    append_label(inspected.inspection, first["sample_id"], "fail" if truth else "pass", "ben", "human")
    gate = decide_gate(config_of(inspected))
    assert gate["counts"]["disagreements"] == 1 and gate["counts"]["read"] == 6 and gate["reviewers"] == ["ada", "ben"]


def test_unsure_counts_as_read_but_not_as_agreement(inspected, label_all):
    label_all(inspected.inspection)
    for sample in load_selection(inspected.inspection)[:3]:
        append_label(inspected.inspection, sample["sample_id"], "unsure", "ada", "human")
    gate = decide_gate(config_of(inspected))
    assert gate["open"] and gate["counts"]["read"] == 6 and gate["agreement"]["compared"] == 3 and gate["agreement"]["unsure_share"] == 0.5
    append_label(inspected.inspection, load_selection(inspected.inspection)[3]["sample_id"], "unsure", "ada", "human")
    assert "67% of the labels are 'unsure'" in decide_gate(config_of(inspected))["reasons"][0]


def test_a_reward_that_pays_wrong_answers_stays_shut_though_all_labels_agree(project, label_all):
    """The reward reads a mark that right completions happen to carry."""
    (project.folder / "mark.py").write_text("def mark(completions, **k):\n    return [float('try 0' in c or 'try 1' in c) for c in completions]\n")
    run_inspection(project.write("  - {use: 'mark.py:mark'}"), completions=project.record(), quiet=True)
    label_all(project.inspection)
    gate = decide_gate(config_of(project))
    assert gate["agreement"]["agreement"] == 1.0 and gate["agreement"]["kappa"] == 1.0
    assert gate["open"] is False and len(gate["reasons"]) == 1 and gate["reasons"][0].startswith("probe mutated_answer: 27 of 27")
    assert gate["probes"][0]["example"]["mutant"]["total"] == 1.0


def test_no_signal_keeps_it_shut(project, label_all):
    run_inspection(project.write(), completions=project.record([[1, 2, 3, 4]] * 4), quiet=True)
    label_all(project.inspection)
    gate = decide_gate(config_of(project))
    assert gate["signal"] == "sft_first" and [r for r in gate["reasons"] if r.startswith("signal sft_first")]


def test_scores_of_another_reward_are_refused(inspected, label_all):
    label_all(inspected.inspection)
    inspected.write("  - {use: exact, weight: 2}")
    with pytest.raises(UserError, match=r"reward settings changed since the samples were scored[\s\S]*run again"):
        decide_gate(config_of(inspected))


def test_what_has_to_be_there_first(project):
    config = project.write()
    with pytest.raises(UserError, match="there are no samples yet"):
        decide_gate(config)
    with pytest.raises(CheckFailed, match="there is no gate") as caught:
        check_gate(config)
    assert caught.value.exit_code == 1 and "inspect_rewards.py run" in str(caught.value)
    run_inspection(config, completions=project.record(), quiet=True)
    assert decide_gate(config)["reasons"] == ["0 of 4 samples have been read by a person"]
    (project.inspection / "scores.jsonl").unlink()
    with pytest.raises(UserError, match="there are no scores yet"):
        decide_gate(config)


def test_bad_label_lines_are_no_silent_loss(inspected, label_all):
    label_all(inspected.inspection)
    with open(labels_path(inspected.inspection), "a") as out:
        out.write('{"half')
    with pytest.raises(UserError, match="line 7"):
        decide_gate(config_of(inspected))


def test_labels_of_other_samples_are_counted_apart(inspected, label_all):
    label_all(inspected.inspection)
    append_label(inspected.inspection, "0123456789abcdef", "fail", "ada", "human")
    gate = decide_gate(config_of(inspected))
    assert gate["open"] and gate["counts"]["of_other_samples"] == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda p: p.write("  - {use: exact, weight: 0.5}"), "reward settings changed"),
        (lambda p: p.data(count=5), "training data changed"),
        (lambda p: p.write(model="org/other"), "model changed: org/model -> org/other"),
        (lambda p: p.write(min_read=6), None),
        (lambda p: p.write(min_read=7, read=7), "inspection.min_read is 7"),
        (lambda p: p.write(grpo=", learning_rate: 1.0e-5"), None),
    ],
)
def test_check_names_what_changed_since(inspected, label_all, change, named):
    label_all(inspected.inspection)
    assert decide_gate(config_of(inspected))["open"]
    change(inspected)
    if named is None:
        assert check_gate(config_of(inspected))["open"]
    else:
        with pytest.raises(CheckFailed, match=named):
            check_gate(config_of(inspected))


def test_rows_that_are_not_known_are_not_compared_and_it_says_so(inspected, label_all):
    label_all(inspected.inspection)
    decide_gate(config_of(inspected))
    inspected.data(count=5)
    gate = check_gate(config_of(inspected), compare_data=False)
    assert gate["open"] and "the training data was not compared" in gate["warnings"][-1]
    inspected.write("  - {use: exact, weight: 0.5}")
    with pytest.raises(CheckFailed, match="other inputs: reward settings changed"):
        check_gate(config_of(inspected), compare_data=False)


def test_changed_reward_code_shuts_it(project, label_all):
    (project.folder / "own.py").write_text(
        "def own(completions, answer):\n    return [float(c.endswith(f'</reasoning><answer>{a}</answer>')) for a, c in zip(answer, completions)]\n"
    )
    run_inspection(project.write("  - {use: 'own.py:own'}"), completions=project.record(), quiet=True)
    label_all(project.inspection)
    assert decide_gate(config_of(project))["open"]
    with open(project.folder / "own.py", "a") as out:
        out.write("# a word\n")
    with pytest.raises(CheckFailed, match="reward code changed: own.py"):
        check_gate(config_of(project))


def test_a_moved_project_keeps_its_open_gate(inspected, label_all, tmp_path_factory):
    label_all(inspected.inspection)
    decide_gate(config_of(inspected))
    moved = tmp_path_factory.mktemp("moved") / "project"
    shutil.copytree(inspected.folder, moved)
    assert check_gate(load_config(moved / "config.yaml"))["open"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": "grpo-rlvr/gate/1"}',
        '{"schema": "grpo-rlvr/gate/2", "open": true, "reasons": [], "fingerprint": {}, "counts": {"read": 9}}',
    ],
)
def test_an_unreadable_gate_is_a_mistake_not_an_open_gate(inspected, text):
    (inspected.inspection / "gate.json").write_text(text)
    with pytest.raises(UserError) as caught:
        check_gate(config_of(inspected))
    assert caught.value.exit_code == 2 and caught.value.kind == "gate"


@pytest.mark.parametrize("damage", [{"reward_code": 5}, {"model": "x"}, {"versions": None}])
def test_a_gate_with_parts_of_the_wrong_kind_is_named(inspected, label_all, damage):
    label_all(inspected.inspection)
    gate = decide_gate(config_of(inspected))
    path = inspected.inspection / "gate.json"
    for bad in ({"fingerprint": {**gate["fingerprint"], **damage}}, {"sampling": 5}, {"at": None}, {"reviewer_kind": ["human"]}, {"warnings": "x"}):
        path.write_text(json.dumps({**gate, **bad}))
        with pytest.raises(UserError, match=r"gate\.json: this is not a gate file of this version\n.*gate CONFIG"):
            check_gate(config_of(inspected))


def edit(path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def rewrite(path, change) -> None:
    """Let `change` edit the list of the file's objects."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    change(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (2, lambda rows: rows[1].pop("verdict")),
        (2, lambda rows: rows[1].update(verdict="yes")),
        (3, lambda rows: rows[2].update(scores=5)),
        (3, lambda rows: rows[2].update(total="1")),
        (1, lambda rows: rows[0]["fingerprint"].update(reward_code=5)),
    ],
)
def test_scores_of_the_wrong_kind_are_named(inspected, line, change):
    rewrite(inspected.inspection / "scores.jsonl", change)
    with pytest.raises(UserError, match=rf"scores\.jsonl line {line}: it is not what a run writes"):
        decide_gate(config_of(inspected))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda p: p.write(model="org/other"), ["model changed: org/model -> org/other: run again with --completions FILE"]),
        (lambda p: edit(p.folder / "train.jsonl", '"15"', '"115"'), ["1 of the 4 training rows"]),
        (
            lambda p: p.config_path.write_text(p.config_path.read_text().replace("train.jsonl", "train.jsonl, system_prompt: hi")),
            ["none of the 16 recorded", "4 of the 4 training rows"],
        ),
    ],
)
def test_recorded_completions_are_those_of_the_inputs_they_were_taken_for(inspected, label_all, change, named):
    label_all(inspected.inspection)
    assert decide_gate(config_of(inspected))["open"]
    change(inspected)
    gate = decide_gate(config_of(inspected))
    assert gate["open"] is False and len(gate["reasons"]) == len(named)
    assert all(words in reason for words, reason in zip(named, gate["reasons"], strict=True))


def test_rows_that_no_completion_answers_may_be_added(inspected, label_all):
    label_all(inspected.inspection)
    inspected.data(count=9)
    assert decide_gate(config_of(inspected))["open"]


def test_prompts_that_are_not_in_the_training_data_are_counted(project, label_all):
    path = project.record()
    strange = [{"prompt": f"new {i}", "answer": str(i), "completion": completion(i + wrong)} for i in range(3) for wrong in (0, 1)]
    config = project.write()
    own = path.read_text()
    path.write_text(own + "".join(json.dumps(row) + "\n" for row in strange))
    run_inspection(config, completions=path, quiet=True)
    label_all(project.inspection)
    gate = decide_gate(config)
    assert gate["open"] and "6 recorded completions answer prompts that the training data does not have" in gate["warnings"]
    path.write_text("".join(json.dumps(row) + "\n" for row in strange))
    run_inspection(config, completions=path, quiet=True)
    label_all(project.inspection)
    assert decide_gate(config)["reasons"] == ["none of the 6 recorded completions answers a prompt of the training data"]


def test_the_same_text_read_twice_has_been_read_once(project):
    path = project.folder / "recorded.jsonl"
    rows = [{"prompt_index": i, "completion": completion(15)} for i in (0, 0, 0, 1, 1, 1)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_inspection(project.write(), completions=path, quiet=True)
    for sample in load_samples(project.inspection):
        append_label(project.inspection, sample["sample_id"], "pass" if sample["prompt_index"] == 0 else "fail", "ada", "human")
    gate = decide_gate(config_of(project))
    assert gate["counts"]["read"] == 2 and gate["reasons"][0].startswith("2 of 4 samples have been read by a person; there are only 2 different ones")
    append_label(project.inspection, load_samples(project.inspection)[2]["sample_id"], "fail", "ada", "human")
    assert decide_gate(config_of(project))["counts"]["disagreements"] == 1  # an objection to any of the equal ones counts


def test_a_reader_of_the_report_who_leaves_does_not_change_the_answer(inspected, label_all, monkeypatch):
    def closed(text: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("grpo_rlvr.inspection.report.write", closed)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert inspect_rewards.main(["gate", str(inspected.config_path)]) == 1
    label_all(inspected.inspection)
    assert inspect_rewards.main(["gate", str(inspected.config_path)]) == 0
    assert inspect_rewards.main(["run", str(inspected.config_path), "--completions", str(inspected.record([[1, 2, 3, 4]]))]) == 1
