"""The plan against published measurements; the numbers are those of benchmarks/memory.py."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest
from conftest import ROOT

# By its path: the tests' own package is called `memory` too.
_SPEC = importlib.util.spec_from_file_location("memory_benchmark", ROOT / "benchmarks" / "memory.py")
benchmark = importlib.util.module_from_spec(_SPEC)
sys.modules["memory_benchmark"] = benchmark
_SPEC.loader.exec_module(benchmark)


@pytest.fixture(scope="module")
def scored():
    lines = (ROOT / "benchmarks" / "memory_points.jsonl").read_text(encoding="utf-8").splitlines()
    return benchmark.score([json.loads(line) for line in lines])


def test_exact_points_are_within_the_bound(scored):
    exact = scored["exact"]
    assert exact["points"] >= 80
    assert exact["mean_absolute"] <= 0.02 and exact["worst"] <= 0.08 and exact["within_5_percent"] >= exact["points"] - 2


@pytest.mark.parametrize(("group", "mean", "worst"), [("step", 0.01, 0.02), ("rl", 0.02, 0.05), ("loss", 0.01, 0.02), ("cache", 0.02, 0.02)])
def test_groups_without_known_gaps(scored, group, mean, worst):
    assert scored["groups"][group]["mean_absolute"] <= mean and scored["groups"][group]["worst"] <= worst


def test_every_point_is_scored_or_has_a_reason(scored):
    assert len(scored["rows"]) + sum(scored["left_out"].values()) == 160
    assert all(reason and not reason.startswith("'") for reason in scored["left_out"])


def test_verdicts_are_on_the_right_side():
    for name, seen, verdict in benchmark.verdicts():
        assert (verdict != "NO") == (seen == "fits"), name


def test_the_intervals_of_the_training_time_hold():
    lines = (ROOT / "benchmarks" / "memory_points.jsonl").read_text(encoding="utf-8").splitlines()
    found = benchmark.training_times([json.loads(line) for line in lines])
    assert found["points"] == 26 and found["inside"] >= 24


def test_the_benchmark_runs(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["memory.py", "--rounds", "0", "--json"])
    assert benchmark.main() == 0
    result = json.loads(capsys.readouterr().out)
    assert result["peers"]["ours"]["mean_absolute"] < 0.1 * result["peers"]["4 x weights"]["mean_absolute"]
    monkeypatch.setattr(sys, "argv", ["memory.py", "--rounds", "0", "--all"])
    assert benchmark.main() == 0 and "all exact-config points" in capsys.readouterr().out
