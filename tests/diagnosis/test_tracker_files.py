"""W&B's and Trackio's own files on the machine that trained, without their packages."""

from __future__ import annotations

import json
import math
import sqlite3
import struct

import pytest
from grpo_rlvr.diagnosis.metrics import build, read_log
from grpo_rlvr.diagnosis.rules import diagnose
from grpo_rlvr.diagnosis.run import read_run
from grpo_rlvr.errors import UserError

from diagnosis.planted import planted
from diagnosis.test_strange_logs import event_file

BLOCK = 32_768


def varint(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def items(values: dict, nested: bool = False) -> bytes:
    return b"".join(field(1, field(2 if nested else 1, k) + field(16, json.dumps(v))) for k, v in values.items())


def wandb_bytes(records: list[bytes]) -> bytes:
    """LevelDB's log: blocks of 32 KiB, an entry that does not fit is cut into pieces."""
    out = b":W&B\xe1\xbe\x00"
    for data in records:
        first = True
        while True:
            left = BLOCK - len(out) % BLOCK
            if left < 7:
                out += b"\0" * left
                continue
            piece, data = data[: left - 7], data[left - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[(first, not data)]
            out += struct.pack("<IHB", 0, len(piece), kind) + piece
            first = False
            if not data:
                break
    return out


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    log = planted("truncation", 1).log
    return [{"step": s, **{name: column[i] for name, column in log.columns.items()}} for i, s in enumerate(log.steps)]


def history(rows: list[dict]) -> list[dict]:
    """As the trainers' callbacks log them: the step by name, other lines between, a table of completions."""
    found = []
    for row in rows:
        found.append({"profiling/Time taken: GRPOTrainer.math": 0.25, "train/global_step": row["step"], "_step": len(found), "_runtime": 1.5})
        found.append({**{f"train/{k}": v for k, v in row.items() if k != "step"}, "train/global_step": row["step"], "_timestamp": 1.0})
    found.append({"eval/reward": 0.5, "train/global_step": rows[-1]["step"]})
    return found


SETTINGS = {"max_completion_length": 300, "max_steps": 120, "learning_rate": 2e-6, "vocab_size": 112, "_wandb": {"x": 1}}


def assert_same(log, rows):
    plain = build(rows, "rows")
    assert log.steps == plain.steps and log.unknown == [] and log.evaluation("reward").values == [0.5]
    for name, column in plain.columns.items():
        if not name.startswith("reward_seconds/"):
            assert log.columns[name] == pytest.approx(column), name


def write_wandb(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [field(2, items(line, nested=i % 3 == 0)) for i, line in enumerate(history(rows))]
    table = field(1, field(2, "completions") + field(2, "nrows") + field(16, "4"))  # a part of a table
    records = [field(17, field(4, items({"max_completion_length": 1}))), field(5, items(SETTINGS)), field(13, "x" * 100_000), *lines, field(2, table)]
    path.write_bytes(wandb_bytes(records))
    return path


def test_a_wandb_file(rows, tmp_path):
    path = write_wandb(tmp_path / "wandb" / "offline-run-1" / "run-abc.wandb", rows)
    for place in (path, path.parent, path.parent.parent):
        assert_same(read_log(place), rows)
    run = read_run(path)
    assert run.known and run.finished and "vocab_size" not in run.settings
    assert diagnose(run).findings[0].patch == {"grpo.max_completion_length": 600}
    # While it is written, and after a kill, it ends anywhere.
    data = path.read_bytes()
    for cut in (len(data) - 1, len(data) // 2, len(data) // 2 + 8):
        path.write_bytes(data[:cut] + b"\xff" * 20)
        log = read_log(path)
        assert 10 < len(log.steps) <= len(rows)
    path.write_bytes(b"something else" * 100)
    with pytest.raises(UserError, match="no line in it"):
        read_log(path)


def write_trackio(path, runs: dict[str, list[dict]]):
    path.parent.mkdir(parents=True, exist_ok=True)
    base = sqlite3.connect(path)
    base.execute("create table metrics (id integer primary key, run_id text, timestamp text, run_name text, step integer, metrics text)")
    base.execute("create table configs (id integer primary key, run_id text, run_name text, config text)")
    for name, rows in runs.items():
        lines = [(name, i, json.dumps({k: v for k, v in line.items() if k[0] != "_"}).encode()) for i, line in enumerate(history(rows))]
        base.executemany("insert into metrics (run_name, step, metrics) values (?, ?, ?)", lines)
        base.execute("insert into configs (run_name, config) values (?, ?)", (name, json.dumps(SETTINGS)))
    base.commit()
    base.close()
    return path


def test_a_trackio_database(rows, tmp_path):
    path = write_trackio(tmp_path / "trackio" / "p.db", {"one <b>": rows})
    before = path.read_bytes()
    for place in (path, path.parent):
        assert_same(read_log(place), rows)
    assert diagnose(read_run(path)).findings[0].patch == {"grpo.max_completion_length": 600}
    assert path.read_bytes() == before
    write_trackio(tmp_path / "two.db", {"a": rows[:9], "b": rows[:9]})
    with pytest.raises(UserError, match="holds 2 runs: a, b"):
        read_log(tmp_path / "two.db")
    (tmp_path / "no.db").write_bytes(b"no database")
    with pytest.raises(UserError, match="no line in it"):
        read_log(tmp_path / "no.db")
    # Two files in one folder are two runs.
    with pytest.raises(UserError, match="2 files of W&B or Trackio"):
        read_log(tmp_path)
    # A database of something else beside TensorBoard's files is no reason not to read those.
    event_file(tmp_path / "other" / "events.out.tfevents.1.host", range(1, 9), 0.5)
    (tmp_path / "other" / "mlflow.db").write_bytes(b"no database")
    assert read_log(tmp_path / "other").kind == "TensorBoard events"


def test_numbers_that_json_has_not_are_kept(tmp_path):
    path = tmp_path / "run-x.wandb"
    lines = [{"train/loss": "NaN" if s == 5 else 0.1, "train/grad_norm": math.inf if s == 6 else 1.0, "train/global_step": s} for s in range(1, 12)]
    path.write_bytes(wandb_bytes([field(2, items(line)) for line in lines]))
    log = read_log(path)
    assert [s for s, _ in log.nonfinite("loss")] == [5] and [s for s, _ in log.nonfinite("grad_norm")] == [6]
