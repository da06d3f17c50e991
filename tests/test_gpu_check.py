"""The prepared script for a GPU: what can be tried without one."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "benchmarks"))

import gpu_check
from grpo_rlvr.memory.plan import make_plan
from grpo_rlvr.memory.reading import read_workload


def test_there_are_six_configs_and_one_for_vllm_that_the_plan_can_read(tmp_path, monkeypatch):
    assert len(gpu_check.CASES) == 6
    from grpo_rlvr.memory.catalog import bundled_shape
    from grpo_rlvr.memory.hardware import find_gpu

    for case in (*gpu_check.CASES, gpu_check.VLLM):
        config = gpu_check.config_of(tmp_path, case, rehearse=False)
        w = read_workload(config, gpu=find_gpu("h200"), shape=bundled_shape(gpu_check.MODEL))
        assert make_plan(w).fits and (w.prompt, w.completion)[1] == case[2][1], case[0]


def test_the_tables_are_made_of_what_was_measured():
    measured = {
        "phases": [{"phase": "rollout", "measured_gib": 2.0, "planned_gib": 1.0, "planned_over_measured": 0.5},
                   {"phase": "training step", "measured_gib": 4.0, "planned_gib": 4.0, "planned_over_measured": 1.0}],
        "measured": {"training step": {"peak": 4.0}}, "step_s": 3.0, "planned_step_s": [2.0, 5.0],
    }  # fmt: skip
    result = {
        "rehearsal": False, "machine": {"gpu": "NVIDIA H200", "date": "2026-01-01", "versions": {}}, "left_out": ["vLLM (no time)"],
        "cases": [
            {"case": "full", "generated": True, "measured": measured, "plain": {"peak_gib": 4.01, "step_s": 3.1}},
            {"case": "long", "generated": False, "measured": measured, "plain": {"peak_gib": 4.01, "step_s": 3.1}},
            {"case": "QLoRA", "generated": True, "measured": {"error": "ImportError: bitsandbytes"}, "plain": {"error": "x"}},
        ],
    }  # fmt: skip
    text = gpu_check.markdown(result)
    assert "NVIDIA H200, 2026-01-01" in text and "| full | rollout | 2.00 | 1.00 | 0.500 |" in text and "| long | rollout" not in text
    assert "| full | 3.0 | 2.0 - 5.0 | 3.1 | 4.01 | 4.00 |" in text and "failed: ImportError" in text and "Left out: vLLM" in text


CASE = ("full", {}, (8, 8), True)


def test_a_failure_keeps_what_was_measured_before_it(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(gpu_check, "_one_way", lambda way, *rest: {"phases": []} if way is gpu_check.by_phase else 1 / 0)
    found = gpu_check.run_case(tmp_path, CASE, True, keep=lambda result: kept.append(json.loads(json.dumps(result))))
    assert list(kept[0]) == ["case", "generated", "measured"] and kept[1] == found
    assert found["plain"]["error"].startswith("ZeroDivisionError") and "error" not in found["measured"]


def test_a_case_that_cannot_even_be_set_up_is_a_result(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_check, "config_of", lambda *rest: 1 / 0)
    assert gpu_check.run_case(tmp_path, CASE, True)["measured"]["error"].startswith("ZeroDivisionError")


def test_the_second_way_is_left_out_when_the_time_is_up(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_check, "_one_way", lambda way, *rest: {})
    assert gpu_check.run_case(tmp_path, CASE, True, until=0.0)["plain"] == {"error": "no time"}


ANSWERS = 'import pathlib; pathlib.Path({path!r}).write_text(\'{{"case": "vLLM", "measured": {{}}}}\'); print(\'a log line after the answer\')'


HANGS = "import time; time.sleep(600)"
ENDS = {
    "answers": (ANSWERS, []),
    "answers and hangs": (ANSWERS + "; " + HANGS, []),
    "dies": ("raise SystemExit(9)", ["exit 9"]),
    "hangs": (HANGS, ["no time"]),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_vllms_part_answers_is_kept_however_it_ends(name, tmp_path, monkeypatch):
    code, left_out = ENDS[name]
    monkeypatch.setattr(gpu_check.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(gpu_check, "LEAST_S", -100)
    monkeypatch.setattr(gpu_check, "GRACE_S", 0)
    monkeypatch.setattr(gpu_check, "vllm_command", lambda folder: [sys.executable, "-c", code.format(path=str(folder / gpu_check.ANSWER))])
    result = {"cases": [], "left_out": []}
    budget = -15 if name == "hangs" else 300  # 15 seconds are given on top of it
    gpu_check._vllm(tmp_path, argparse.Namespace(rehearse=False, budget=budget), result, time.perf_counter())
    assert [case["case"] for case in result["cases"]] == ([] if left_out else ["vLLM"])
    assert [text.rpartition("(")[2].rstrip(")") for text in result["left_out"]] == left_out


@pytest.mark.model
def test_it_is_rehearsed_on_a_cpu(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu_check.py"), "--rehearse", "--only", "LoRA r16, bfloat16", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "gpu_check.json").read_text(encoding="utf-8"))
    (case,) = result["cases"]
    assert case["measured"]["prompt_tokens"] == 64 and case["measured"]["completion_tokens"] == 64 and case["plain"]["step_s"] > 0
    assert {p["phase"] for p in case["measured"]["phases"]} >= {"rollout", "training step", "optimizer step"}
    assert "a rehearsal" in (tmp_path / "gpu_check.md").read_text(encoding="utf-8")
