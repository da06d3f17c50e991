"""`run.stop_on`: the training ends on a chosen symptom and on no other."""

from __future__ import annotations

import json
import math
import shutil
from types import SimpleNamespace

import pytest
from conftest import sums, write_rows
from diagnosis.planted import healthy, planted
from grpo_rlvr.config import load_config
from grpo_rlvr.diagnosis.rules import ORDER
from grpo_rlvr.errors import UserError
from training.test_train import REASON, edit, train


def rows_of(run) -> list[dict]:
    return [{"step": s, **{k: c[i] for k, c in run.log.columns.items() if c[i] is not None}} for i, s in enumerate(run.log.steps)]


def step_of_stop(rows: list[dict], symptoms: tuple[str, ...], settings: dict, cycle: int = 1) -> tuple[int | None, object]:
    """Where the callback stops the training that logs these lines; None if it does not."""
    from grpo_rlvr.training.stop_on import StopOnCallback

    callback = StopOnCallback(symptoms, settings, {}, None)
    args = SimpleNamespace(steps_per_generation=cycle, num_iterations=1, gradient_accumulation_steps=1, save_strategy="steps", device="cpu")
    state = SimpleNamespace(global_step=0, max_steps=len(rows), log_history=[], is_world_process_zero=True)
    callback.on_train_begin(args, state, None)
    control = SimpleNamespace(should_log=False, should_save=False, should_training_stop=False)
    for row in rows:
        state.global_step = row["step"]
        callback.on_step_end(args, state, control)
        if control.should_training_stop:
            return row["step"], control
        callback.on_log(args, state, control, logs={k: v for k, v in row.items() if k != "step"})
    return None, control


def test_a_trend_stops_it_at_the_second_look(capsys):
    run = planted("nothing_solved", 1)
    step, control = step_of_stop(rows_of(run), ("nan", "nothing_solved"), dict(run.settings))
    assert step == 16 and control.should_save  # looks at lines 10 and 15
    assert "Nothing is ever solved" in capsys.readouterr().err


def test_nan_stops_it_at_once_and_is_not_saved():
    rows, settings, _ = healthy(2, "short", 60)
    rows[32]["loss"] = math.nan
    step, control = step_of_stop(rows, ("nan",), settings)
    assert step == rows[32]["step"] + 1 and not control.should_save


def test_it_waits_for_the_end_of_a_generation_cycle():
    rows, settings, _ = healthy(2, "short", 60)
    rows[32]["loss"] = math.nan
    assert step_of_stop(rows, ("nan",), settings, cycle=8)[0] == 40


def test_symptoms_that_were_not_chosen_and_healthy_runs_go_on():
    run = planted("nothing_solved", 1)
    assert step_of_stop(rows_of(run), ("nan", "truncation"), dict(run.settings))[0] is None
    every = tuple(name for name in ORDER if name not in ("stalled", "nothing_trained"))
    for seed in range(8):
        rows, settings, _ = healthy(seed, lines=60)
        assert step_of_stop(rows, every, settings)[0] is None, seed


def test_the_config_knows_the_names(project):
    edit(project, "run: {folder: run}", "run: {folder: run, stop_on: [nan, dead_groups]}")
    config = load_config(project / "config.yaml")
    assert config.run.stop_on == ("nan", "dead_groups") and config.resolved().run.stop_on == ("nan", "dead_groups")
    schema = json.loads((project.__class__(__file__).parents[2] / "templates/config.schema.json").read_text())
    offered = schema["properties"]["run"]["properties"]["stop_on"]["items"]["enum"]
    assert sorted(offered) == sorted(set(ORDER) - {"stalled", "nothing_trained"})
    edit(project, "[nan, dead_groups]", "[nun]")
    with pytest.raises(UserError, match="stop_on"):
        load_config(project / "config.yaml")


@pytest.mark.model
def test_a_real_run_stops(project, untaught_model):
    shutil.copytree(untaught_model, project / "model")
    write_rows(project / "train.jsonl", sums(200))
    edit(project, "max_steps: 4", "max_steps: 60")
    edit(project, "save_steps: 1", "save_steps: 60\n  logging_steps: 1")
    edit(project, "run: {folder: run}", "run: {folder: run, stop_on: [nothing_solved]}")
    done = train(project, *REASON)
    assert done.returncode == 1, done.stderr
    assert "run.stop_on: stopping at step" in done.stderr and "Nothing is ever solved" in done.stderr
    lines = (project / "run/train/logs/progress.jsonl").read_text().splitlines()
    assert 8 < len(lines) < 30
    assert (project / f"run/train/checkpoints/checkpoint-{len(lines)}").is_dir()
