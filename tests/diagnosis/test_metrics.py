"""Reading logs: every form gives the same numbers, old names are understood, nothing is guessed."""

from __future__ import annotations

import csv
import json
import math

import pytest
from conftest import ROOT
from grpo_rlvr.diagnosis.metrics import build, read_log
from grpo_rlvr.diagnosis.names import canonical
from grpo_rlvr.diagnosis.rules import diagnose
from grpo_rlvr.diagnosis.run import read_run
from grpo_rlvr.errors import UserError

from diagnosis.conftest import lines_of, tiny_runs, write_run
from diagnosis.planted import healthy


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    """Numbers only, by TRL's names."""
    found = []
    for line in lines_of(tiny_runs()["healthy-grpo"]):
        line = {k: v for k, v in line.items() if isinstance(v, (int, float))}
        line["learning_rate"] = line.pop("lr")
        found.append(line)
    return found


def same(log, rows, close=False):
    names = {k for row in rows for k in row} - {"step"}
    assert set(log.columns) == names
    assert log.steps == [row["step"] for row in rows]
    for name in names:
        want = [row.get(name) for row in rows]
        got = log.columns[name]
        assert [v is None for v in got] == [v is None for v in want], name
        assert [v for v in got if v is not None] == pytest.approx([v for v in want if v is not None], rel=1e-6 if close else 0), name


def test_trainer_state(rows, tmp_path):
    evaluation = {"eval_loss": 0.1, "eval_reward": 0.5, "eval_rewards/exact/mean": 0.4, "step": 20}
    end = {"train_runtime": 12.0, "train_loss": 0.01, "total_flos": 0.0, "step": 60}
    state = {"global_step": 60, "max_steps": 60, "log_history": [*rows[:20], evaluation, *rows[20:], end]}
    path = tmp_path / "out" / "checkpoint-60" / "trainer_state.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(state))
    for place in (path, path.parent, tmp_path / "out"):
        log = read_log(place)
        same(log, rows)
        assert log.evaluation("reward").values == [0.5] and log.evaluation("rewards/exact/mean").values == [0.4]
        assert log.end["train_runtime"] == 12.0
    assert read_run(path).finished is True


def test_metrics_that_are_merged_into_the_last_entry_count(tmp_path):
    # With fewer steps than logging_steps TRL logs them nowhere else.
    merged = {"train_runtime": 3.0, "train_loss": 0.2, "step": 4, "reward": 0.5, "entropy": 0.3, "completions/mean_length": 9.0}
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"global_step": 4, "max_steps": 4, "log_history": [merged]}))
    log = read_log(path)
    assert log.steps == [4] and log.series("reward").values == [0.5]


def test_the_newest_checkpoint_is_read_by_number(rows, tmp_path):
    for step in (9, 60):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step, "max_steps": 60, "log_history": rows[:step]}))
    assert read_log(tmp_path).last_step == 60


def test_progress_lines(rows, tmp_path):
    path = tmp_path / "log.jsonl"
    lines = [{**{k: v for k, v in row.items() if k != "learning_rate"}, "lr": row["learning_rate"]} for row in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 61, "rew')
    same(read_log(path), rows)


def test_a_run_folder(healthy_folder):
    run = read_run(healthy_folder)
    assert run.finished and run.known and run.log.kind == "run folder"
    assert run.log.evaluation("held_out/accuracy").steps == [0, 20, 40, 60, 80]
    assert run.weights == {"exact": 1.0, "format": 0.0} and run.role("exact") == "correct" and run.role("format") == "form"
    assert diagnose(run).healthy


def test_tensorboard(rows, tmp_path):
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path / "runs" / "one"))
    for row in rows:
        for name, value in row.items():
            if name != "step":
                writer.add_scalar(f"train/{name}", value, row["step"])
    writer.add_scalar("eval/reward", 0.25, 40)
    writer.add_text("config", "no number", 0)
    writer.add_histogram("weights", __import__("torch").arange(10.0), 0)
    writer.add_scalar("train/new_style", 1.5, 60, new_style=True)
    writer.close()
    log = read_log(tmp_path)
    assert log.columns.pop("new_style")[-1] == 1.5
    same(log, rows, close=True)
    assert log.evaluation("reward").values == [0.25]
    (event,) = (tmp_path / "runs" / "one").glob("events*")
    data = event.read_bytes()
    # Files that are being written end anywhere, and files can be damaged: what stands before is read.
    for cut in (len(data) // 2, len(data) - 1, 30):
        event.write_bytes(data[:cut] + b"\xff" * 40)
        try:
            assert len(read_log(event).steps) <= len(rows)
        except UserError as exc:
            assert "no line in it" in str(exc)


def test_tensorboard_file_of_the_real_writer():
    # tests/data/events.out.tfevents.1 was written by torch.utils.tensorboard.SummaryWriter: 1/step as train/reward at steps 1 to 40,
    # a text, a histogram, eval/reward at 40, and a tensor scalar.
    log = read_log(ROOT / "tests" / "data" / "events.out.tfevents.1")
    assert log.steps == list(range(1, 41)) and set(log.columns) == {"reward", "entropy"}
    assert log.columns["reward"] == pytest.approx([1 / s for s in range(1, 41)], rel=1e-6)
    assert log.columns["entropy"][-1] == 1.5 and log.evaluation("reward").values == [0.25]


def write_csv(path, rows, names):
    with open(path, "w", newline="") as out:
        table = csv.DictWriter(out, names)
        table.writeheader()
        table.writerows(rows)


def test_wandb_history(rows, tmp_path):
    # W&B counts its own calls in _step and writes timing rows of their own between TRL's.
    table = []
    for i, row in enumerate(rows):
        table.append({"_step": 2 * i, "profiling/Time taken: GRPOTrainer.exact": 0.5, "_timestamp": 1.7e9})
        table.append({"_step": 2 * i + 1, "train/global_step": row["step"], **{f"train/{k}": v for k, v in row.items() if k != "step"}})
    write_csv(tmp_path / "history.csv", table, list(dict.fromkeys(k for row in table for k in row)))
    log = read_log(tmp_path / "history.csv")
    assert set(log.columns.pop("reward_seconds/exact")) == {0.5}
    same(log, rows)


def test_wandb_chart_and_trackio(rows, tmp_path):
    chart = [
        {"Step": r["step"], "brisk-sun-1 - train/reward": r.get("reward"), "brisk-sun-1 - train/reward__MIN": 0, "brisk-sun-1 - train/reward__MAX": 1}
        for r in rows
    ]
    write_csv(tmp_path / "chart.csv", chart, list(chart[0]))
    log = read_log(tmp_path / "chart.csv")
    assert list(log.columns) == ["reward"] and log.series("reward").values == [r["reward"] for r in rows if "reward" in r]
    trackio = [{"run": "one", "timestamp": "2026-11-30", "step": r["step"], **{f"train/{k}": v for k, v in r.items() if k != "step"}} for r in rows]
    write_csv(tmp_path / "trackio.csv", trackio, list(dict.fromkeys(k for row in trackio for k in row)))
    same(read_log(tmp_path / "trackio.csv"), rows)


@pytest.mark.parametrize("where", ["header", "row"])
def test_csv_with_a_field_without_end_is_refused(tmp_path, where):
    fields = {"header": "step,reward\n", "row": "1,0.5\n"}
    fields[where] = fields[where].replace("\n", ',"' + "x" * 200_000)
    (tmp_path / "log.csv").write_text("".join(fields.values()), encoding="utf-8")
    with pytest.raises(UserError, match="cannot be read as CSV"):
        read_log(tmp_path / "log.csv")


def test_csv_of_several_runs_or_without_a_step_is_refused(tmp_path):
    write_csv(tmp_path / "two.csv", [{"Step": 1, "a - train/reward": 1, "b - train/reward": 2}], ["Step", "a - train/reward", "b - train/reward"])
    with pytest.raises(UserError, match="2 runs: a, b"):
        read_log(tmp_path / "two.csv")
    write_csv(tmp_path / "runs.csv", [{"run": "a", "step": 1, "reward": 1}, {"run": "b", "step": 1, "reward": 2}], ["run", "step", "reward"])
    with pytest.raises(UserError, match="2 runs: a, b"):
        read_log(tmp_path / "runs.csv")
    write_csv(tmp_path / "none.csv", [{"reward": 1}], ["reward"])
    with pytest.raises(UserError, match="no column holds the step"):
        read_log(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("completion_length", "completions/mean_length"), ("train/completion_length", "completions/mean_length"),
        ("clip_ratio", "clip_ratio/region_mean"),
        ("rewards/accuracy_reward", "rewards/accuracy_reward/mean"), ("rewards/a/b/mean", "rewards/a/b/mean"),
        ("rewards/exact/std", "rewards/exact/std"),
        ("eval/rewards/exact/mean", "eval_rewards/exact/mean"), ("eval_completion_length", "eval_completions/mean_length"), ("lr", "learning_rate"),
        ("train/train_loss", "loss"), ("something/else", "something/else"),
    ],
)  # fmt: skip
def test_old_names(old, new):
    assert canonical(old) == new


def test_numbers_that_json_has_not(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(
        '{"step": 1, "loss": NaN, "reward": Infinity}\n{"step": 2, "loss": null, "grad_norm": null, "nonfinite": ["grad_norm"], "reward": null}\n'
    )
    log = read_log(path)
    assert [math.isnan(v) if v is not None else None for v in log.columns["loss"]] == [True, None]
    assert log.nonfinite("reward") == [(1, math.inf)] and log.nulls["reward"] == 1
    assert [s for s, _ in log.nonfinite("grad_norm")] == [2]
    write_csv(tmp_path / "t.csv", [{"step": 1, "loss": "NaN", "reward": "-inf"}], ["step", "loss", "reward"])
    log = read_log(tmp_path / "t.csv")
    assert math.isnan(log.columns["loss"][0]) and log.columns["reward"] == [-math.inf]


def test_a_resumed_run_replaces_the_steps_it_did_again():
    rows = [{"step": s, "reward": 0.1 * s, "entropy": 1.0} for s in (1, 2, 3, 4, 5)] + [{"step": s, "reward": 9.0} for s in (3, 4)]
    log = build(rows, "lines")
    assert log.steps == [1, 2, 3, 4] and log.columns["reward"] == [0.1, 0.2, 9.0, 9.0] and log.columns["entropy"][2:] == [None, None]


def test_two_lines_of_one_step_are_one():
    log = build([{"step": 1, "reward": 0.5}, {"step": 1, "entropy": 0.25}, {"step": 2, "reward": 0.6}], "lines")
    assert (log.steps, log.columns) == ([1, 2], {"reward": [0.5, 0.6], "entropy": [0.25, None]})


def test_unknown_metrics_are_kept_and_missing_ones_said():
    rows, settings, held_out = healthy(3, "short", 40)
    for row in rows:
        del row["entropy"]
        row["my/own"] = 1.0
    log = build(rows, "lines")
    assert log.unknown == ["my/own"] and log.series("my/own").mean == 1.0
    from diagnosis.planted import run_of

    answer = diagnose(run_of(rows, settings, held_out))
    assert answer.not_checked["entropy_collapse"] == "needs entropy, which the log does not hold"
    assert "kl" in answer.not_checked["kl_spike"]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"log_history": 3}', "not json", '{"log_history": [{"a": 1}]}'])
def test_what_is_no_log_is_said(tmp_path, content):
    path = tmp_path / "trainer_state.json"
    path.write_text(content)
    with pytest.raises(UserError):
        read_log(path)


def test_other_places_are_refused(tmp_path):
    for place, words in ((tmp_path, "holds no log"), (tmp_path / "absent", "no such file"), (tmp_path / "model.bin", "no log that can be read")):
        if place.suffix:
            place.write_bytes(b"x")
        with pytest.raises(UserError, match=words):
            read_log(place)


def test_a_long_log(tmp_path):
    # How long 100,000 lines take is measured by benchmarks/diagnosis.py.
    rows, _, _ = healthy(5, "short", 300)
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps({**rows[i % 300], "step": i + 1}) + "\n" for i in range(20_000)))
    log = read_log(path)
    assert log.steps == list(range(1, 20_001)) and log.columns["reward"][-1] == rows[19_999 % 300]["reward"]


def test_a_folder_without_a_line_yet(tmp_path):
    folder = write_run({**tiny_runs()["healthy"], "columns": {"step": []}}, tmp_path / "run", finished=False)
    run = read_run(folder)
    assert run.log.steps == [] and diagnose(run).healthy
