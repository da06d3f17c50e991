"""Logs of real runs, each driven into one failure on purpose (made by make_tiny_runs.py): the right rule comes first."""

from __future__ import annotations

import pytest
from grpo_rlvr.diagnosis.rules import diagnose

from diagnosis.conftest import as_run, tiny_runs

HEALTHY = [name for name, run in tiny_runs().items() if run["symptom"] == "healthy"]
FAILED = [name for name in tiny_runs() if name not in HEALTHY]


def test_the_runs_are_there():
    from diagnosis.make_tiny_runs import RUNS

    assert set(RUNS) == set(tiny_runs())
    assert len(HEALTHY) >= 7 and len(FAILED) >= 14


@pytest.mark.parametrize("name", FAILED)
def test_the_right_rule_comes_first(name):
    record = tiny_runs()[name]
    found = diagnose(as_run(record)).findings
    assert [f.name for f in found][:1] == [record["symptom"]], [(f.name, [e.text for e in f.evidence]) for f in found]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_at_every_moment(name):
    record = tiny_runs()[name]
    count = len(record["columns"]["step"])
    for upto in range(1, count + 1):
        found = diagnose(as_run(record, upto)).findings
        assert found == (), (upto, [(f.name, [e.text for e in f.evidence]) for f in found])
