"""Logs that are not what one would wish for: other trainers' logs, several runs at once, lines in another order, files that go away."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys

import pytest
from conftest import ROOT
from grpo_rlvr.diagnosis.metrics import build, read_log
from grpo_rlvr.diagnosis.rules import diagnose
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.texts import summary
from grpo_rlvr.diagnosis.watch import watch
from grpo_rlvr.errors import UserError

from diagnosis.conftest import tiny_runs, write_run
from diagnosis.planted import healthy

COMMON = {"loss": 0.5, "grad_norm": 1.0, "learning_rate": 2e-5}


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def event_file(path, steps, value):
    """One scalar, train/reward, a step, as TensorBoard writes it (its checksums are not read)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = b""
    for step in steps:
        scalar = b"\x0a\x0ctrain/reward\x15" + struct.pack("<f", value)
        summary_value = b"\x0a" + bytes([len(scalar)]) + scalar
        event = b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary_value)]) + summary_value
        records += struct.pack("<Q", len(event)) + b"\0" * 4 + event + b"\0" * 4
    path.write_bytes(records)


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"mean_token_accuracy": 0.5, "entropy": 1.2}, "supervised fine-tuning"),
        ({"rewards/chosen": 0.1, "rewards/rejected": -0.1, "rewards/margins": 0.2}, "a preference run"),
        ({"logps/chosen": -3.0, "logps/rejected": -4.0}, "a preference run"),
        ({"min_reward": -1.0, "mean_reward": 0.0, "max_reward": 1.0}, "a reward model"),
        ({"train/mean_token_accuracy": 0.5}, "supervised fine-tuning"),
        ({"critic/score/mean": 0.5, "actor/entropy": 0.4}, "verl"),
    ],
)
def test_logs_of_other_trainers_are_named(tmp_path, metrics, words):
    path = write(tmp_path / "log.jsonl", [{"step": s, **COMMON, **metrics} for s in range(1, 50)])
    with pytest.raises(UserError, match=words):
        read_log(path)


def test_a_run_of_grpo_is_never_taken_for_another(tmp_path):
    for row in ({"reward": 0.4, "mean_token_accuracy": 0.5}, {"completions/mean_length": 9.0, "rewards/chosen": 0.4, "rewards/rejected": 0.1}):
        assert len(read_log(write(tmp_path / "log.jsonl", [{"step": s, **row} for s in range(1, 9)])).steps) == 8


def test_a_log_without_a_reward_is_not_called_healthy():
    for rows in ([{"step": s, **COMMON} for s in range(1, 50)], [{"step": s, "eval_reward": 0.4} for s in (10, 20, 30)]):
        run = Run(build(rows, "progress lines"))
        answer = diagnose(run)
        assert not answer.findings and "healthy: " not in summary(run, answer) and "not enough to call" in summary(run, answer)
        assert {n.name for n in answer.notes} & {"no_reward", "only_evaluations"}


def test_lines_without_a_step_are_said(tmp_path):
    with pytest.raises(UserError, match="7 lines hold metrics, and none of them a step"):
        read_log(write(tmp_path / "log.jsonl", [{"reward": 0.4}] * 7))


def test_newest_line_first_is_the_same_run():
    rows = [{"step": s, "reward": s / 50, "entropy": 0.5 if s % 2 else None} for s in range(1, 51)]
    there, back = (build(r, "CSV export") for r in (rows, rows[::-1]))
    assert there.steps == back.steps and there.columns == back.columns
    # A run that was resumed twice goes back twice, and what was done again counts.
    again = [{"step": s, "reward": float(i)} for i, part in enumerate((range(1, 31), range(21, 41), range(31, 51))) for s in part]
    assert build(again, "x").columns["reward"] == [0.0] * 20 + [1.0] * 10 + [2.0] * 20


def test_values_inside_objects_are_found_by_their_path():
    rows = [{"step": s, "reward": {"mean": 0.4}, "rewards": {"exact": {"mean": 0.3, "std": 0.1}}, "mine": {"a": 1.0}} for s in range(1, 9)]
    log = build(rows, "progress lines")
    assert set(log.columns) == {"reward", "rewards/exact/mean", "rewards/exact/std", "mine/a"} and log.unknown == ["mine/a"]


def test_a_reward_that_is_nan_is_mended_in_the_reward():
    rows, settings, _ = healthy(4, "short", 60)
    rows[30]["rewards/math/mean"] = rows[30]["reward"] = float("nan")
    (finding,) = diagnose(Run(build(rows, "x"), settings=settings, known=True)).findings
    assert finding.name == "nan" and "mend the reward" in finding.remedy and finding.patch == {}
    rows[20]["loss"] = float("nan")
    assert "grpo.learning_rate" in diagnose(Run(build(rows, "x"), settings=settings, known=True)).findings[0].patch


def test_a_folder_of_runs_names_them(tmp_path):
    for name in ("a", "b"):
        write_run(tiny_runs()["healthy"], tmp_path / "runs" / name)
    for folder in (tmp_path / "runs", tmp_path):
        with pytest.raises(UserError) as caught:
            read_log(folder)
        assert "2 runs inside" in str(caught.value) and f"{tmp_path / 'runs' / 'a'}, {tmp_path / 'runs' / 'b'}" in str(caught.value)
    # TRL's output_dirs, with TensorBoard's files in them, are told apart too.
    for name in ("o1", "o2"):
        write(tmp_path / "outs" / name / "checkpoint-8" / "trainer_state.json", [{"log_history": []}])
        event_file(tmp_path / "outs" / name / "runs" / "x" / "events.out.tfevents.100.host", range(1, 9), 0.5)
    with pytest.raises(UserError, match="2 runs inside"):
        read_log(tmp_path / "outs")
    # A wrong folder is no reason to wait.
    with pytest.raises(UserError, match="2 runs inside"):
        watch(tmp_path / "outs", None, 1.0, 5, sleep=lambda s: pytest.fail("waits"))


def test_event_files_of_several_runs_are_not_mixed(tmp_path):
    event_file(tmp_path / "two" / "r1" / "events.out.tfevents.100.host", range(1, 30), 0.25)
    event_file(tmp_path / "two" / "r2" / "events.out.tfevents.200.host", range(1, 30), 0.75)
    with pytest.raises(UserError, match="event files of 2 runs"):
        read_log(tmp_path / "two")
    # A run that went on from a checkpoint has a folder a start; by name December comes before November.
    event_file(tmp_path / "runs" / "Nov30" / "events.out.tfevents.100.host", range(1, 31), 0.25)
    event_file(tmp_path / "runs" / "Dec01" / "events.out.tfevents.200.host", range(21, 41), 0.75)
    log = read_log(tmp_path / "runs")
    assert log.steps == list(range(1, 41)) and log.columns["reward"] == [0.25] * 20 + [0.75] * 20


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "log.jsonl")
    command = [sys.executable, str(ROOT / "scripts" / "diagnose.py"), str(tmp_path / "log.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "neither a file nor a folder" in done.stderr


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "log.jsonl", [{"step": 1, "reward": 0.4}])

    def refuse(*args):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("grpo_rlvr.diagnosis.readers.lines", refuse)
    with pytest.raises(UserError, match="cannot be read: Permission denied"):
        read_log(path)


class Watched:
    """A run folder that is watched: `events` happen in the pauses between the looks, one each, and then it goes on."""

    def __init__(self, folder, *events):
        half = {name: values[:40] for name, values in tiny_runs()["healthy"]["columns"].items()}
        self.folder = write_run({**tiny_runs()["healthy"], "columns": half}, folder, finished=False)
        self.events = list(events)

    def sleep(self, seconds):
        if self.events:
            self.events.pop(0)()

    def watch(self, rounds=12):
        return watch(self.folder, None, 1.0, rounds, sleep=self.sleep, clock=lambda: 0.0)


def test_watching_ends_when_the_run_is_deleted(tmp_path, capsys):
    import shutil

    watched = Watched(tmp_path / "run", lambda: None, lambda: shutil.rmtree(tmp_path / "run"))
    run, answer = watched.watch()
    assert answer.healthy and run.log.last_step == 40
    assert "is gone" in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_watching_bears_a_log_that_is_away_for_a_moment(tmp_path, capsys):
    here, away = tmp_path / "run", tmp_path / "away"
    watched = Watched(here, lambda: here.rename(away), lambda: None, lambda: away.rename(here), lambda: here.rename(away), lambda: away.rename(here))
    watched.watch()
    assert "is gone" not in capsys.readouterr().err and (here / "status.md").exists()


def test_watching_goes_on_when_the_note_cannot_be_written(tmp_path, capsys, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device", str(path))

    watched = Watched(tmp_path / "run")
    monkeypatch.setattr("grpo_rlvr.diagnosis.watch.write_text", full)
    _, answer = watched.watch(4)
    err = capsys.readouterr().err
    assert answer.healthy and err.count("cannot be written: No space left on device; watching goes on") == 1
