from __future__ import annotations

import pytest
from grpo_rlvr.training.vllm_monitor import DIFFERENCE, RATIO, SyncMonitor


def see(monitor, differences, ratio=1.0):
    return [monitor.see({DIFFERENCE: d, RATIO: ratio}) for d in differences]


def codes(found):
    return [f.code for f in found if f]


def test_the_same_small_difference_says_nothing():
    assert not any(see(SyncMonitor(), [0.0009, 0.0011, 0.0008, 0.002, 0.0012] * 20))
    assert not any(see(SyncMonitor(), [0.012, 0.015, 0.011, 0.02, 0.018] * 20))  # bf16 sampling, float32 training


def test_a_difference_that_grows_with_every_update_is_first_a_warning_then_a_stop():
    # The course of a transfer that answers "done" and changes nothing: 0.001 to 0.085 in ten steps.
    found = [f for f in see(SyncMonitor(), [0.001, 0.004, 0.009, 0.016, 0.025, 0.036, 0.049, 0.062, 0.074, 0.085]) if f]
    assert [f.code for f in found] == ["vllm-drift", "vllm-drift", "vllm-stale"]
    assert [f.stop for f in found] == [False, False, True]
    assert "9 times the 0.0010 of the first steps" in found[0].message


def test_one_bad_step_is_no_drift():
    assert not any(see(SyncMonitor(), [0.001, 0.001, 0.001, 0.3, 0.001, 0.001, 0.4, 0.001]))


def test_a_large_difference_before_any_update_is_a_matter_of_settings():
    assert codes(see(SyncMonitor(), [0.7, 0.7, 0.7, 0.7])) == ["vllm-mismatch"]


def test_a_masked_gradient_is_told_once():
    assert codes(see(SyncMonitor(), [0.01] * 9, ratio=0.2)) == ["vllm-masked"]


def test_lines_without_vllm_are_passed_over():
    monitor = SyncMonitor()
    assert monitor.see({"reward": 1.0}) is None and monitor.see({DIFFERENCE: None}) is None and monitor.baseline is None


@pytest.mark.parametrize("earlier", [2, 50])
def test_a_resumed_run_is_measured_by_its_first_steps(earlier):
    monitor = SyncMonitor([{DIFFERENCE: 0.001}] * earlier + [{"step": 1}])
    assert codes(see(monitor, [0.09] * 3)) == ["vllm-stale"]
