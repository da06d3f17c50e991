from __future__ import annotations

import pytest
from grpo_rlvr.training.gpu import Thermometer, from_nvidia_smi, peak_memory_gb, used_memory_gb


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A stand-in for nvidia-smi that answers with the GPU it was asked for, or fails."""
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def says(body):
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)

    return says


def test_the_temperature_is_that_of_the_gpu_that_is_meant(driver):
    driver('case "$1" in --id=6) echo 71;; --id=GPU-abc) echo 55;; --id=0) echo 40;; esac')
    assert from_nvidia_smi(["5", "6"], 1) == 71
    assert from_nvidia_smi(["GPU-abc"], 0) == 55
    assert from_nvidia_smi([""], 0) == 40


@pytest.mark.parametrize("body", ["exit 9", "echo '[N/A]'", "echo"])
def test_a_driver_that_does_not_tell_is_no_error(driver, body):
    driver(body)
    assert from_nvidia_smi([], 0) is None


def test_without_a_gpu(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert from_nvidia_smi([], 0) is None
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert Thermometer().read_c() is None and used_memory_gb() is None and peak_memory_gb() > 0
