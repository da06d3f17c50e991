"""The benchmarks run, and what they call true is true. No time is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "benchmarks"))

import math_task
from grpo_rlvr.rewards import math_reward
from grpo_rlvr.rewards.registry import REGISTRY
from reward_cases import CASES


def test_the_reward_benchmark_runs_and_the_verdicts_are_right():
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "benchmarks" / "rewards.py"), "--tiny", "--without-peers", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {CASES[name].use for name in result["others"]} >= REGISTRY.keys() - {"code"}  # which has a benchmark of its own
    assert {name: row["wrong"] for name, row in result["others"].items()} == dict.fromkeys(result["others"], 0)


def test_the_inspection_benchmark_runs():
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks" / "inspection.py"), "--count", "96", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"draw", "load", "score", "select"} <= json.loads(done.stdout)["parts"].keys()


@pytest.mark.model
def test_the_overhead_benchmark_runs():
    command = [sys.executable, str(ROOT / "benchmarks" / "overhead.py"), "--pairs", "3", "--width", "64", "--layers", "2", "--tokens", "8"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["pairs"] == 3 and result["cpu"]["plain_s"] > 0 and result["wall"]["ours_s"] > 0


@pytest.mark.model
def test_math_and_its_peers_agree_with_the_truth():
    command = [sys.executable, str(ROOT / "benchmarks" / "rewards.py"), "--tiny", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    math = json.loads(done.stdout)["math"]
    assert math["completions"] == 48 and {name: row["wrong"] for name, row in math["reward"].items()} == dict.fromkeys(math["reward"], 0)


def test_the_batch_has_its_shape_and_repeats():
    batch = math_task.make_batch(0)
    assert batch == math_task.make_batch(0) != math_task.make_batch(1)
    assert len(batch.completions) == len(batch.golds) == len(batch.truth) == 2048
    assert all(len(set(batch.golds[i : i + 8])) == 1 for i in range(0, 2048, 8))
    numeric = {maker.__name__ for maker in math_task.NUMERIC}
    assert Counter(kind in numeric for kind in batch.kinds) == {True: 1024, False: 1024}
    assert 0.4 < sum(batch.truth) / 2048 < 0.6


@pytest.mark.parametrize("maker", dict.fromkeys(math_task.NUMERIC + math_task.LATEX), ids=lambda maker: maker.__name__)
def test_what_is_called_right_or_wrong_is(maker):
    """By SymPy's numbers at a point, which no reward has a part in; sets and pairs by their text."""
    import random

    from latex2sympy2_extended import latex2sympy
    from sympy import Symbol

    def value(text: str) -> object:
        plain = text.replace("\\left", "").replace("\\right", "").replace(" ", "")
        if maker.__name__ in ("pair", "interval"):
            return plain
        found = latex2sympy(text.replace(",", "") if maker.__name__ == "thousands" else text)
        return round(complex(found.subs({s: Symbol("t") for s in found.free_symbols}).subs("t", 1.37).evalf()).real, 9)

    rng = random.Random(5)
    for problem in (maker(rng) for _ in range(6)):
        gold = value(problem.gold)
        assert all(value(text) == gold for text in problem.right), problem
        assert all(value(text) != gold for text in problem.wrong), problem
        texts = [f"\\boxed{{{text}}}" for text in problem.right + problem.wrong]
        assert math_reward(completions=texts, answer=[problem.gold] * len(texts)) == [1.0] * len(problem.right) + [0.0] * len(problem.wrong)


def test_the_diagnosis_benchmark_runs():
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks" / "diagnosis.py"), "500"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "500 lines" in done.stdout and "rules" in done.stdout
