from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT
from grpo_rlvr.errors import UserError
from grpo_rlvr.training.checkpoints import newest_complete, set_aside_incomplete
from grpo_rlvr.training.run_folder import RunFolder, read_record

WHOLE = ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json")
HEADER = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
WEIGHTS = len(HEADER).to_bytes(8, "little") + HEADER + b"\0" * 8


def checkpoint(folder, step, parts=WHOLE):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    for part in parts:
        if part.endswith("json"):
            (path / part).write_text(json.dumps({"global_step": step}))
        elif part.endswith("safetensors"):
            (path / part).write_bytes(WEIGHTS)
        else:
            with zipfile.ZipFile(path / part, "w") as archive:  # what torch.save writes
                archive.writestr("data.pkl", b"x" * 200)
    return path


def test_newest_complete_passes_over_what_a_kill_left(tmp_path):
    checkpoint(tmp_path, 9)
    whole = checkpoint(tmp_path, 10)
    checkpoint(tmp_path, 20, ("optimizer.pt", "rng_state.pth"))
    checkpoint(tmp_path, 30, ("rng_state.pth", "trainer_state.json"))
    torn = checkpoint(tmp_path, 40)
    (torn / "trainer_state.json").write_text('{"global_')
    (tmp_path / "checkpoint-final").mkdir()
    assert newest_complete(tmp_path) == whole
    assert set_aside_incomplete(tmp_path) == ["checkpoint-20", "checkpoint-30", "checkpoint-40"]
    assert sorted(p.name for p in tmp_path.glob("incomplete-*")) == ["incomplete-20", "incomplete-30", "incomplete-40"]
    checkpoint(tmp_path, 20, ())
    assert set_aside_incomplete(tmp_path) == ["checkpoint-20"]
    assert (tmp_path / "incomplete-20.2").is_dir()


def test_newest_complete_passes_over_files_that_lost_their_end(tmp_path):
    whole = checkpoint(tmp_path, 1)
    assert newest_complete(tmp_path) == whole
    for step, (name, content) in enumerate(
        [("model.safetensors", WEIGHTS[:-1]), ("model.safetensors", b""), ("optimizer.pt", (whole / "optimizer.pt").read_bytes()[:-30])], 2
    ):
        (checkpoint(tmp_path, step) / name).write_bytes(content)
    assert newest_complete(tmp_path) == whole
    assert len(set_aside_incomplete(tmp_path)) == 3


def test_newest_complete_passes_over_what_lacks_a_part(tmp_path):
    whole = checkpoint(tmp_path, 1)
    for step, part in enumerate(WHOLE, 2):
        checkpoint(tmp_path, step, [p for p in WHOLE if p != part])
    sharded = checkpoint(tmp_path, 9)
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}))
    assert newest_complete(tmp_path) == whole
    (sharded / "model-2.safetensors").write_bytes(WEIGHTS)
    assert newest_complete(tmp_path) == sharded
    # An adapter is a model too, and FSDP and DeepSpeed keep folders of their own.
    checkpoint(tmp_path, 10, WHOLE[1:])
    (tmp_path / "checkpoint-10/adapter_model.safetensors").write_bytes(WEIGHTS)
    assert newest_complete(tmp_path).name == "checkpoint-10"
    shards = checkpoint(tmp_path, 11, WHOLE[2:])
    (shards / "optimizer_0").mkdir()
    assert newest_complete(tmp_path) == shards


def test_newest_complete_passes_over_what_is_no_state_and_no_tensor(tmp_path):
    whole = checkpoint(tmp_path, 1)
    for step, text in enumerate(["[]", "null", "[" * 100_000], 2):
        (checkpoint(tmp_path, step) / "trainer_state.json").write_text(text)
    for step, header in enumerate([b"[]", b'{"w": []}', b'{"w": {"data_offsets": 1}}', b'{"w": {"data_offsets": []}}'], 5):
        (checkpoint(tmp_path, step) / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert newest_complete(tmp_path) == whole
    assert len(set_aside_incomplete(tmp_path)) == 7


def test_a_finished_run_is_never_touched(tmp_path):
    run = RunFolder(tmp_path)
    run.train.mkdir()
    run.result.write_text(json.dumps({"steps": 80}))
    for resume in (False, True):
        with pytest.raises(UserError, match=r"already holds a finished run \(80 steps\)"):
            run.start(resume)


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000])
def test_a_damaged_record_is_named(tmp_path, text):
    run = RunFolder(tmp_path)
    run.train.mkdir()
    run.result.write_text(text)
    with pytest.raises(UserError, match="result.json is damaged"):
        run.refuse(resume=False)
    assert read_record(tmp_path / "absent.json") == {}


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(UserError, match="is a file"):
        RunFolder(tmp_path / "run").refuse(resume=False)


def test_other_processes_only_look(tmp_path, capsys):
    run = RunFolder(tmp_path)
    whole = checkpoint(run.checkpoints, 5)
    checkpoint(run.checkpoints, 9, ())
    run.progress.append({"step": 7})
    assert run.start(resume=True, main_process=False) == whole
    assert (run.checkpoints / "checkpoint-9").is_dir() and run.progress.last_step() == 7 and not capsys.readouterr().err
    assert run.start(resume=True) == whole
    assert "checkpoint-9 is not whole; it is set aside as incomplete-9" in capsys.readouterr().err


def test_an_unfinished_run_is_continued_only_when_asked(tmp_path):
    run = RunFolder(tmp_path)
    for step in range(1, 8):
        run.progress.append({"step": step})
    five = checkpoint(run.checkpoints, 5)
    with pytest.raises(UserError, match=r"unfinished run \(step 7\)") as error:
        run.start(resume=False)
    assert "--resume" in str(error.value)
    assert run.start(resume=True) == five
    assert run.progress.last_step() == 5


def test_resume_with_nothing_there_starts_afresh(tmp_path):
    run = RunFolder(tmp_path / "new")
    assert run.start(resume=True) is None
    assert run.logs.is_dir()


def test_a_second_process_is_refused_while_the_first_trains(tmp_path):
    code = (
        "import sys; from pathlib import Path\nfrom grpo_rlvr.training.run_folder import RunFolder\nwith RunFolder(Path(sys.argv[1])).locked(): pass"
    )
    second = [sys.executable, "-c", code, str(tmp_path)]
    environment = {"PYTHONPATH": str(ROOT / "scripts"), "PATH": "/usr/bin:/bin"}
    with RunFolder(tmp_path).locked():
        refused = subprocess.run(second, env=environment, capture_output=True, text=True)
    assert refused.returncode == 1 and "another process" in refused.stderr
    assert subprocess.run(second, env=environment).returncode == 0
