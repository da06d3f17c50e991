from __future__ import annotations

import json

from grpo_rlvr.training.progress import FIRST_KEYS, Pace, ProgressLog, progress_line


def lines(log):
    return [json.loads(line) for line in log.path.read_text().splitlines()]


def test_line_has_the_five_keys_first_and_trl_names_after():
    line = progress_line({"loss": 0.5, "learning_rate": 1e-6, "reward": 0.25, "rewards/exact/mean": 0.25}, 3, 1.5, None, 12.0)
    # The keys that a fine-tuning lifecycle polls for, by name and in this order.
    assert list(line)[:5] == ["step", "loss", "lr", "mem_gb", "temp_c"] == list(FIRST_KEYS)
    assert (line["step"], line["loss"], line["lr"], line["mem_gb"], line["temp_c"]) == (3, 0.5, 1e-6, 1.5, None)
    assert (line["reward"], line["rewards/exact/mean"], line["eta_s"]) == (0.25, 0.25, 12.0)


def test_all_five_keys_are_there_when_the_trainer_logged_none_of_them():
    line = progress_line({"reward": 0.25}, 3, None, None, None)
    assert [line[key] for key in FIRST_KEYS] == [3, None, None, None, None]


def test_what_json_has_no_number_for_is_null_and_named():
    line = progress_line({"loss": float("nan"), "grad_norm": float("inf"), "learning_rate": 0.0}, 1, None, None, None)
    assert line["loss"] is None and line["grad_norm"] is None
    assert line["nonfinite"] == ["loss", "grad_norm"]
    json.dumps(line, allow_nan=False)


def test_a_metric_of_a_reward_cannot_take_the_place_of_ours():
    line = progress_line({"loss": 0.5, "step": 0.25, "mem_gb": 9.0, "reward": 1.0}, 7, 1.0, None, None)
    assert (line["step"], line["metric/step"], line["mem_gb"], line["metric/mem_gb"]) == (7, 0.25, 1.0, 9.0)


def test_rewind_drops_later_lines_and_a_torn_one(tmp_path):
    log = ProgressLog(tmp_path / "progress.jsonl")
    for step in range(1, 6):
        log.append({"step": step})
    with open(log.path, "a") as out:
        out.write('{"step": 6, "lo')
    assert log.rewind(3) == 3
    assert [line["step"] for line in lines(log)] == [1, 2, 3]
    assert log.rewind(3) == 0
    assert log.last_step() == 3


def test_rewind_without_a_file(tmp_path):
    assert ProgressLog(tmp_path / "none.jsonl").rewind(0) == 0
    assert ProgressLog(tmp_path / "none.jsonl").last_step() == 0


def test_eta_is_pace_times_steps_left(monkeypatch):
    now = iter([100.0, 104.0])
    monkeypatch.setattr("grpo_rlvr.training.progress.time.monotonic", lambda: next(now))
    pace = Pace()
    assert pace.eta_s(10, 20) is None
    assert pace.eta_s(12, 20) == 16.0
