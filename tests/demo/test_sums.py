from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest
from conftest import ROOT
from grpo_rlvr.demo.sums import Sum, draw, oracle, worked_steps


def test_worked_steps_carry():
    assert worked_steps(Sum(79, 14), 2) == "9+4=13;7+1+1=09"
    assert worked_steps(Sum(85, 27), 2) == "5+7=12;8+2+1=11"


def test_held_out_sums_are_disjoint_from_training():
    rng = random.Random(0)
    train = {draw(rng, 2, False) for _ in range(3000)}
    held_out = {draw(rng, 2, True) for _ in range(3000)}
    assert not train & held_out and len(held_out) > 500


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("<answer>12</answer>", True),
        ("<reasoning>so <answer>9</answer></reasoning><answer> 12 </answer> done", True),
        ("<answer>9</answer> no: <answer>12</answer>", True),
        ("<answer>12</answer> no: <answer>9</answer>", False),
        ("<answer>12</answer><answer>1", False),
        ("<reasoning><answer>12</answer>", False),
        ("12", False),
        ("<answer>012</answer>", False),
    ],
)
def test_oracle(text, right):
    assert oracle(text, "12") is right


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--model", "smollm2", "--scenario", "never"], "tiny only"),
        (["--steps", "0"], "got 0"),
        (["--folder", str(ROOT)], "already there"),
    ],
)
def test_bad_requests_are_refused_at_once(flags, words):
    done = subprocess.run([sys.executable, str(ROOT / "scripts/quickstart.py"), "--json", *flags], capture_output=True, text=True)
    assert done.returncode == 2
    assert words in json.loads(done.stdout)["error"]["message"]


@pytest.mark.parametrize(("seconds", "shown"), [(0.1, [10, 20]), (15, list(range(1, 21)))], ids=["quick steps", "slow steps"])
def test_training_is_never_silent_for_long(seconds, shown, monkeypatch, capsys):
    from grpo_rlvr.demo import loop

    now = [100.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    out = loop._ProgressLines()
    line = {"reward": 0.5, "completions/mean_length": 9.0, "frac_reward_zero_std": 0.25, "eta_s": None}
    for step in range(1, 21):
        now[0] += seconds
        print(json.dumps({"step": step, **line}), file=out)
    assert [int(text.split()[1]) for text in capsys.readouterr().err.splitlines()] == shown
