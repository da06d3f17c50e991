"""references/grpo-memory.md says what the planner prints, and its configs fit."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys

import pytest
import yaml
from conftest import ROOT
from grpo_rlvr.config import config_from
from grpo_rlvr.memory.estimate import PHASES, TERMS
from grpo_rlvr.memory.explain import ENTRIES, terms_markdown
from grpo_rlvr.memory.plan import make_plan
from grpo_rlvr.memory.reading import read_workload
from grpo_rlvr.memory.size_classes import CLASSES, base_config, markdown
from grpo_rlvr.memory.trl_eras import eras_markdown
from grpo_rlvr.training.lint import lint

TEXT = (ROOT / "references" / "grpo-memory.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def part(name: str) -> str:
    return re.search(rf"<!-- begin {name} -->\n\n(.*?)\n<!-- end {name} -->", TEXT, re.DOTALL)[1]


def test_the_tables_are_those_that_are_printed():
    assert part("size-classes") == markdown(), "put the output of memory_plan.py --tables there"
    assert part("terms") == terms_markdown()
    assert part("eras") == eras_markdown()


def test_the_levers_stand_in_the_order_they_are_tried():
    rows = [line.strip("|").split("|")[0].strip().lower() for line in TEXT.partition("| lever |")[2].partition("\n\n")[0].splitlines()[2:]]
    tree = ast.parse((ROOT / "scripts/grpo_rlvr/memory/levers.py").read_text(encoding="utf-8"))
    calls = [node.args for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Lever"]
    costs = {}  # by name, the least; the first number of a cost that grows
    for name, _, cost, *_ in calls:
        number = next(n.value for n in ast.walk(cost) if isinstance(n, ast.Constant))
        costs[name.value] = min(number, costs.get(name.value, number))
    said = {"dtype": "precision", "trl": "trl 1.15 or later", "tensor-parallel": "tensor parallelism"}
    places = {name: next(i for i, row in enumerate(rows) if said.get(name, name) in row) for name in costs}
    by_cost = sorted(costs, key=lambda name: (costs[name], places[name]))
    assert [places[name] for name in by_cost] == sorted(places.values()) and set(places.values()) == set(range(len(rows)))


def test_the_accuracy_is_that_of_the_benchmark():
    sys.path.append(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("memory_benchmark", ROOT / "benchmarks" / "memory_accuracy.py")
    benchmark = importlib.util.module_from_spec(spec)
    sys.modules["memory_benchmark"] = benchmark
    spec.loader.exec_module(benchmark)
    lines = (ROOT / "benchmarks" / "memory_points.jsonl").read_text(encoding="utf-8").splitlines()
    result = benchmark.whole_result([json.loads(line) for line in lines], benchmark.peers(rules=True))
    assert part("accuracy") == benchmark.markdown(result)
    assert part("peers") == benchmark.peers_markdown(result)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: yaml.safe_load(b)["hardware"]["gpu"] + "-" + yaml.safe_load(b)["model"]["name_or_path"][-12:])
def test_each_block_loads_fits_and_passes_the_lint(block, tmp_path):
    raw = yaml.safe_load(block)
    whole = {**base_config(raw["model"]["name_or_path"], raw["hardware"]["gpu"]), **raw}
    config = config_from(whole, tmp_path / "config.yaml")
    assert make_plan(read_workload(config)).verdict == "FITS"
    assert [f for f in lint(config) if f.level == "error"] == []


def test_every_class_has_a_block_and_every_term_and_phase_a_word():
    assert len(BLOCKS) == len(CLASSES)
    assert set(ENTRIES) == set(TERMS)
    assert all(f"| {phase} |" in TEXT for phase in PHASES)
