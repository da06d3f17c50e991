"""Every planted fault is found by the probe that is to find it, and no sound reward is called broken."""

from __future__ import annotations

import pytest
from grpo_rlvr.inspection.probes import PROBES, forms

from inspection.planted import PLANTED, TASKS, findings_of


@pytest.mark.parametrize("entry", PLANTED["flawed"], ids=lambda e: e["name"])
def test_planted_faults_are_found(entry, tmp_path, monkeypatch):
    monkeypatch.setattr(forms, "STUCK_S", 0.5)  # one of them computes without end
    found = {f["probe"]: f for f in findings_of(entry, tmp_path)}
    for probe, severity in entry["expect"].items():
        assert probe in found and found[probe]["severity"] == severity, {p: f["severity"] for p, f in found.items() if f["severity"] != "ok"}
        assert entry.get("also", probe) in (probe, *found[probe].get("also", ()))
        assert found[probe]["example"] or probe in ("pickling", "message_forms", "odd_input"), "a fault is shown, not only told"


@pytest.mark.parametrize("entry", PLANTED["sound"], ids=lambda e: e["name"])
def test_sound_rewards_raise_no_error(entry, tmp_path):
    found = findings_of(entry, tmp_path)
    assert {f["probe"]: f["message"] for f in found if f["severity"] == "error"} == {}
    assert sum(f["severity"] == "warning" for f in found) <= 1, "and hardly a warning"


def test_the_planted_set_is_as_large_as_it_should_be():
    assert len(PLANTED["flawed"]) >= 20 and len(PLANTED["sound"]) >= 10
    names = [e["name"] for group in PLANTED.values() for e in group]
    assert len(names) == len(set(names)) and {e["task"] for group in PLANTED.values() for e in group} == set(TASKS)
    assert {p for e in PLANTED["flawed"] for p in e["expect"]} <= set(PROBES)
