"""A finding accepted with a written reason no longer shuts the gate, and is seen everywhere."""

from __future__ import annotations

import json

import inspect_rewards
import pytest
from grpo_rlvr import config as config_module
from grpo_rlvr.config import config_to_yaml, load_config
from grpo_rlvr.errors import CheckFailed, UserError
from grpo_rlvr.inspection.fingerprint import reward_parts
from grpo_rlvr.inspection.gate import check_gate, decide_gate
from grpo_rlvr.inspection.probes import PROBES, has_error
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.waivers import waiver_warnings, with_waivers
from grpo_rlvr.rewards import build_rewards
from grpo_rlvr.sections import AcceptedProbe
from grpo_rlvr.training.launch import open_gate

REASON = "a tolerance of one is what the customer asked for"
LOOSE = """
import re
def loose(completions, answer, **columns):
    found = [re.findall(r"</reasoning><answer>(-?[0-9]{1,9})</answer>$", c) for c in completions]
    return [float(bool(n) and abs(int(n[-1])) == int(a)) for n, a in zip(found, answer)]
"""


def accept(*pairs: tuple[str, str]) -> str:
    return ", accept: [" + ", ".join(f"{{probe: {probe}, reason: '{reason}'}}" for probe, reason in pairs) + "]"


@pytest.fixture
def loose(project):
    """A reward that takes -15 for 15: one error, of mutated_answer."""
    (project.folder / "loose.py").write_text(LOOSE)
    return project


def written(project, more: str = ""):
    return project.write("  - {use: 'loose.py:loose'}", more=more)


def test_an_accepted_error_opens_the_gate_and_is_shown(loose, label_all, capsys):
    result = run_inspection(written(loose), completions=loose.record(), quiet=True)
    assert result["go"] is False and result["accepted"] == [] and "inspection.accept" in result["next"]
    label_all(loose.inspection)
    assert [r[:20] for r in decide_gate(written(loose))["reasons"]] == ["probe mutated_answer"]
    config = written(loose, accept(("mutated_answer", REASON)))
    assert run_inspection(config, completions=loose.record(), quiet=True)["go"] is True
    assert inspect_rewards.main(["gate", str(loose.config_path)]) == 0
    shown = capsys.readouterr().err
    assert f"probe mutated_answer: error, accepted ({REASON}): " in shown and f"mutated_answer (error) is accepted: {REASON}; it said: " in shown
    gate = json.loads((loose.inspection / "gate.json").read_text())
    (entry,) = gate["accepted"]
    assert (entry["probe"], entry["severity"], entry["reason"]) == ("mutated_answer", "error", REASON)
    assert next(f for f in gate["probes"] if f["probe"] == "mutated_answer")["accepted"] == REASON
    assert any(REASON in w for w in gate["warnings"])
    trained = open_gate(config, build_rewards(config), _rows(config), None)  # what train.py keeps of it
    assert trained["gate"]["accepted"] == gate["accepted"] and any(REASON in w for w in trained["gate"]["warnings"])


def test_a_waiver_taken_back_shuts_training_out(loose, label_all):
    config = written(loose, accept(("mutated_answer", REASON)))
    run_inspection(config, completions=loose.record(), quiet=True)
    label_all(loose.inspection)
    assert decide_gate(config)["open"] and check_gate(config)["open"]
    assert check_gate(written(loose, accept(("mutated_answer", REASON + ", and more"))))["open"]
    with pytest.raises(CheckFailed, match="no longer accepts: mutated_answer"):
        check_gate(written(loose))


def test_other_errors_still_shut_it(loose, label_all):
    config = written(loose, accept(("prompt_echo", REASON)))
    run_inspection(config, completions=loose.record(), quiet=True)
    label_all(loose.inspection)
    gate = decide_gate(config)
    assert gate["open"] is False and [r[:20] for r in gate["reasons"]] == ["probe mutated_answer"] and gate["accepted"] == []
    assert "inspection.accept names the probe prompt_echo, which found nothing: delete the line" in gate["warnings"]


def test_a_waiver_changes_no_fingerprint(loose):
    before, after = written(loose), written(loose, accept(("mutated_answer", REASON)))
    assert reward_parts(before, build_rewards(before)) == reward_parts(written(loose, accept(("mutated_answer", REASON))), build_rewards(after))


@pytest.mark.parametrize(
    ("accepted", "where", "words"),
    [
        (accept(("mutated_answr", REASON)), "inspection.accept[0].probe", "did you mean `mutated_answer`?"),
        (accept(("speed", "too short")), "inspection.accept[0].reason", "must have at least 20 characters, got 9"),
        (accept(("speed", " " * 30)), "inspection.accept[0].reason", "mostly blanks"),
        (accept(("speed", REASON), ("speed", REASON)), "inspection.accept[1].probe", "accepted by entry 0 already"),
        (", accept: [{probe: speed}]", "inspection.accept[0].reason", "is missing"),
        (", accept: speed", "inspection.accept", "must be a list"),
    ],
)
def test_mistakes_in_waivers_are_named(project, accepted, where, words):
    with pytest.raises(UserError) as caught:
        project.write(more=accepted)
    (problem,) = caught.value.problems
    assert problem.where == where and words in f"{problem.message} {problem.fix}"


def test_the_schema_lists_the_probes(project):
    schema = json.loads(config_module.SCHEMA.read_text())["properties"]["inspection"]["properties"]["accept"]["items"]["properties"]
    assert schema["probe"]["enum"] == list(PROBES) and schema["reason"]["minLength"] == config_module.REASON_CHARACTERS
    config = project.write(more=accept(("speed", REASON)))
    (project.folder / "again.yaml").write_text(config_to_yaml(config))
    assert load_config(project.folder / "again.yaml") == config and config.inspection.accept == (AcceptedProbe("speed", REASON),)


def test_waivers_of_what_is_fine_or_only_a_warning():
    found = [{"probe": "speed", "severity": "ok", "message": ""}, {"probe": "totals", "severity": "warning", "message": "m"}]
    accept = (AcceptedProbe("speed", REASON), AcceptedProbe("totals", REASON))
    marked = with_waivers(found, accept)
    assert "accepted" not in marked[0] and marked[1]["accepted"] == REASON and not has_error(marked)
    assert [w.split(":")[0] for w in waiver_warnings(marked, accept)] == [
        "probe totals (warning) is accepted", "inspection.accept names the probe speed, which found nothing",
    ]  # fmt: skip


def _rows(config) -> list[dict]:
    from grpo_rlvr.data import load_rows

    return load_rows(config, "train")
