from __future__ import annotations

import math

import pytest
from grpo_rlvr.training.held_out import compare, paired_interval, read_header, read_records, record_path, write_records


def record(row, verdict):
    return {"row_id": f"eval:{row}", "completion": "x", "scores": {}, "total": 0.0, "verdict": verdict}


def test_interval_equals_the_published_formula():
    # Agresti and Min 2005 on the paired table (b=3 got worse, c=15 got better, n=40): n*=42, difference (15-3)/42.
    differences = [1.0] * 15 + [-1.0] * 3 + [0.0] * 22
    centre = 12 / 42
    half = 1.959964 * math.sqrt((19 / 42 - centre**2) / 42)
    assert paired_interval(differences) == pytest.approx((centre - half, centre + half))


def test_interval_is_never_of_width_zero():
    low, high = paired_interval([1.0] * 20)
    assert 0.7 < low < high <= 1.0
    assert paired_interval([0.0] * 20)[0] < 0 < paired_interval([0.0] * 20)[1]
    assert paired_interval([]) == (None, None)


def test_only_prompts_judged_both_times_count():
    before = [record(0, False), record(1, True), record(2, None), record(3, False)]
    after = [record(0, True), record(1, True), record(2, True)]
    result = compare(before, after)
    assert (result["prompts"], result["before"], result["after"], result["difference"]) == (2, 0.5, 1.0, 0.5)


def test_repeated_rows_are_cut_back_and_several_completions_are_averaged(tmp_path):
    records = [record(1, True), record(0, True), record(0, False), record(1, True), record(0, True)]
    summary = write_records(tmp_path, 7, records, {"eval:0": "p"}, per_prompt=2, inputs="digest")
    assert summary == {"step": 7, "accuracy": 0.75, "prompts": 2, "completions": 4, "unscored": 0}
    assert read_header(record_path(tmp_path, 7))["inputs"] == "digest"
    read = read_records(record_path(tmp_path, 7))
    assert [r["row_id"] for r in read] == ["eval:0", "eval:0", "eval:1", "eval:1"]
    assert read[0]["prompt"] == "p"
