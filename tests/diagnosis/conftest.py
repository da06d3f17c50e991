"""The real runs of tests/data/tiny_runs.json, as runs and as folders."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from grpo_rlvr.diagnosis.metrics import build
from grpo_rlvr.diagnosis.run import Run


@lru_cache(maxsize=1)
def tiny_runs() -> dict[str, dict]:
    return json.loads((ROOT / "tests" / "data" / "tiny_runs.json").read_text(encoding="utf-8"))


def lines_of(record: dict, upto: int | None = None) -> list[dict]:
    columns = record["columns"]
    count = len(columns["step"]) if upto is None else upto
    return [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(count)]


def as_run(record: dict, upto: int | None = None) -> Run:
    """The run as the rules see it, cut after `upto` lines."""
    lines = lines_of(record, upto)
    log = build(lines, "run folder")
    for line in record["evaluations"]:
        if line["step"] <= lines[-1]["step"] and line["accuracy"] is not None:
            log.evaluations.setdefault("held_out/accuracy", {})[line["step"]] = line["accuracy"]
            log.evaluations.setdefault("held_out/prompts", {})[line["step"]] = line["prompts"]
    rewards = [yaml.safe_load(entry) for entry in record["rewards"]]
    return Run(log, settings=record["grpo"], known=True, config={"rewards": rewards})


def write_run(record: dict, folder: Path, finished: bool = True) -> Path:
    """A run folder as training leaves it."""
    logs = folder / "train" / "logs"
    logs.mkdir(parents=True)
    (logs / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines_of(record)), encoding="utf-8")
    (logs / "eval.jsonl").write_text("".join(json.dumps(line) + "\n" for line in record["evaluations"]), encoding="utf-8")
    rewards = [yaml.safe_load(entry) for entry in record["rewards"]]
    config = {"model": {"name_or_path": "model", "dtype": "float32"}, "rewards": rewards, "grpo": record["grpo"]}
    (folder / "config.resolved.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    start = {"at": "2026-11-30T03:08:39+00:00", "versions": {"trl": "1.16.0"}, "without_gate": "a test"}
    (folder / "train" / "run.json").write_text(json.dumps({"starts": [start], "settings": record["grpo"]}), encoding="utf-8")
    if finished:
        result = {"finished": True, "steps": record["columns"]["step"][-1], "held_out": record["held_out"]}
        (folder / "train" / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return folder


@pytest.fixture
def healthy_folder(tmp_path) -> Path:
    return write_run(tiny_runs()["healthy"], tmp_path / "run")


@pytest.fixture
def hacked_folder(tmp_path) -> Path:
    return write_run(tiny_runs()["careless"], tmp_path / "run")
