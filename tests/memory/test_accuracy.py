"""The plan against published measurements; the numbers are those of benchmarks/memory_accuracy.py."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest
from conftest import ROOT

# By its path: the tests' own package is called `memory` too.
sys.path.append(str(ROOT / "benchmarks"))
_SPEC = importlib.util.spec_from_file_location("memory_benchmark", ROOT / "benchmarks" / "memory_accuracy.py")
benchmark = importlib.util.module_from_spec(_SPEC)
sys.modules["memory_benchmark"] = benchmark
_SPEC.loader.exec_module(benchmark)
import memory_boundaries  # noqa: E402


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


def all_points() -> list[dict]:
    lines = (ROOT / "benchmarks" / "memory_points.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_every_boundary_is_on_the_right_side_or_says_why_it_is_not_held():
    sides = benchmark.held(all_points())
    assert [side for side in sides if not side.right] == []
    assert {side.point for side in sides if side.seen == "out of memory"} == {"p136", "p138"}
    told = {name.split()[0] for name, _, _ in benchmark.verdicts()} | {side.point for side in sides}
    every = {p["id"] for p in all_points() if p["kind"] in benchmark.KINDS}
    reasons = benchmark.unscored(all_points(), told)
    assert told - {"note"} | set(reasons) == every and not told & set(reasons)
    assert set(reasons) <= set(memory_boundaries.REASONS)
    # The lengths up to which the stated micro-batches fit, by the plan; what they were is not published, only that 1536 was the most.
    limits = [side.own_limit for side in sides if side.own_limit is not None and side.point != "p140"]
    assert all(250 < limit < 1000 for limit in limits)


def test_a_boundary_on_the_wrong_side_is_named():
    wrong = {"point": "p1", "run": "a run", "seen": "fits", "sequences": 2, "tokens": 64, "verdict": "NO", "own_limit": None}
    found = benchmark.failures({"exact": None, "verdicts": [], "elsewhere": [wrong]})
    assert found == ["p1 a run, 2 x 64: fits, and the plan says NO"]
    assert benchmark.failures({"exact": None, "verdicts": [], "elsewhere": [{**wrong, "seen": "out of memory"}]}) == []


def test_the_intervals_of_the_training_time_hold():
    lines = (ROOT / "benchmarks" / "memory_points.jsonl").read_text(encoding="utf-8").splitlines()
    found = benchmark.training_times([json.loads(line) for line in lines])
    assert found["points"] == 26 and found["inside"] >= 24


def run(monkeypatch, capsys, *flags: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["memory_accuracy.py", "--rounds", "0", *flags])
    return benchmark.main(), capsys.readouterr().out


def test_the_benchmark_runs_and_is_far_better_than_others(capsys, monkeypatch):
    code, out = run(monkeypatch, capsys, "--rules", "--json")
    peers = json.loads(out)["peers"]
    assert code == 0 and len(peers) == 4
    assert all(peers["memory_plan.py"]["mean_absolute"] < 0.1 * e["mean_absolute"] for name, e in peers.items() if name != "memory_plan.py")
    code, out = run(monkeypatch, capsys, "--rules", "--all")
    assert code == 0 and "all exact-config points" in out and "hf-vram-calc (its rule)" in out


def test_a_wrong_plan_is_exit_1(capsys, monkeypatch):
    monkeypatch.setattr(benchmark, "CUBLAS_GIB", 1.5)
    code, out = run(monkeypatch, capsys, "--rules")
    assert code == 1 and "NO: the mean absolute error" in out and "NO: the worst error" in out
    monkeypatch.undo()
    monkeypatch.setattr(benchmark, "verdicts", lambda: [("a run", "out of memory", "FITS")])
    code, out = run(monkeypatch, capsys, "--rules")
    assert code == 1 and "NO: a run: out of memory, and the plan says FITS" in out


@pytest.mark.model
def test_the_rules_of_other_tools_are_what_they_do():
    from grpo_rlvr.memory.catalog import bundled_shape
    from memory_peers import peers

    for name in ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"):
        for ruled, ran in zip(peers(rules=True), peers(), strict=True):
            for method in ("full", "lora", "qlora"):
                assert ruled.gib(bundled_shape(name), method, 16) == pytest.approx(ran.gib(bundled_shape(name), method, 16), rel=0.001)
