"""`scripts/train.py` on TRL's real trainer, with the demo's network."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, sums, write_rows
from documents import unnamed_files

pytestmark = pytest.mark.model
TRAIN = [sys.executable, str(ROOT / "scripts" / "train.py")]
REASON = ["--without-gate", "a test of the training alone"]


@pytest.fixture
def ready(project: Path, untaught_model: Path) -> Path:
    """The small project with its model; 200 rows, so that 40 steps of 2 prompts stay in the first epoch."""
    shutil.copytree(untaught_model, project / "model")
    write_rows(project / "train.jsonl", sums(200))
    edit(project, "max_steps: 4", "max_steps: 40")
    edit(project, "save_steps: 1", "save_steps: 7\n  logging_steps: 1\n  learning_rate: 1.0e-3")
    # A reward that random text earns at times, so that the weights move.
    (project / "rewards.py").write_text(
        "def letters(completions, **columns):\n    return [sum(c.isalpha() for c in x[0]['content']) / 16 for x in completions]\n"
    )
    edit(project, "- {use: exact}", "- {use: 'rewards.py:letters'}")
    return project


def edit(project: Path, old: str, new: str) -> None:
    path = project / "config.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def train(project: Path, *flags: str, **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run([*TRAIN, str(project / "config.yaml"), *flags], capture_output=True, text=True, timeout=600, **kwargs)


def progress(project: Path) -> list[dict]:
    return [json.loads(line) for line in (project / "run/train/logs/progress.jsonl").read_text().splitlines()]


def start_and_wait(project: Path, lines: int) -> subprocess.Popen:
    """Start training and return once `progress.jsonl` holds that many lines."""
    process = subprocess.Popen([*TRAIN, str(project / "config.yaml"), *REASON], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    path, until = project / "run/train/logs/progress.jsonl", time.monotonic() + 300
    while not path.exists() or path.read_text().count("\n") < lines:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.02)
    return process


def test_a_run_ends_with_progress_result_and_model(ready):
    done = train(ready, *REASON)
    assert done.returncode == 0, done.stderr
    lines = progress(ready)
    assert [line["step"] for line in lines] == list(range(1, 41))
    assert [json.loads(line) for line in done.stdout.splitlines()] == lines
    assert all(list(line)[:5] == ["step", "loss", "lr", "mem_gb", "temp_c"] for line in lines)
    assert all(isinstance(line[key], float) for line in lines for key in ("loss", "lr", "mem_gb"))
    for key in ("reward", "rewards/letters/mean", "frac_reward_zero_std", "completions/mean_length",
                "completions/clipped_ratio", "entropy", "step_time", "eta_s", "grad_norm"):  # fmt: skip
        assert key in lines[-1], key
    assert lines[-1]["eta_s"] == 0 and lines[-1]["mem_gb"] > 0.1
    assert lines[-1]["reward"] > lines[0]["reward"] + 0.05
    result = json.loads((ready / "run/train/result.json").read_text())
    assert (result["schema"], result["finished"], result["steps"]) == ("grpo-rlvr/result/1", True, 40)
    assert result["without_gate"] == REASON[1]
    held_out = result["held_out"]
    assert held_out["prompts"] == 8 and held_out["ci95"][0] <= held_out["difference"] <= held_out["ci95"][1]
    assert [json.loads(line)["step"] for line in (ready / "run/train/logs/eval.jsonl").read_text().splitlines()] == [0, 40]
    record = json.loads((ready / "run/train/run.json").read_text())
    assert record["settings"]["model_init_kwargs"]["dtype"] == "float32"
    assert (ready / "run/train/model/model.safetensors").exists()
    assert unnamed_files(ready / "run") == []

    for flags in ([], ["--check"]):
        again = train(ready, *REASON, *flags)
        assert again.returncode == 2 and "already holds a finished run (40 steps)" in again.stderr
    again = train(ready, *REASON, "--resume", "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["held_out"] == held_out
    assert progress(ready) == lines

    # A kill after the last step: the checkpoint has all the steps, and only what came after is done again.
    (ready / "run/train/result.json").unlink()
    (ready / "run/train/model/model.safetensors").unlink()
    # The last evaluation too, which draws what it drew then.
    evaluated = ready / "run/train/logs/eval.jsonl"
    evaluated.write_text(evaluated.read_text().splitlines(keepends=True)[0])
    records = (ready / "run/train/logs/held_out/step-000040.jsonl").read_bytes()
    again = train(ready, *REASON, "--resume")
    assert again.returncode == 0, again.stderr
    assert progress(ready) == lines
    assert [json.loads(line)["step"] for line in (ready / "run/train/logs/eval.jsonl").read_text().splitlines()] == [0, 40]
    assert (ready / "run/train/logs/held_out/step-000040.jsonl").read_bytes() == records
    assert json.loads((ready / "run/train/result.json").read_text())["held_out"] == held_out
    last = (ready / "run/train/checkpoints/checkpoint-40/model.safetensors").read_bytes()
    assert (ready / "run/train/model/model.safetensors").read_bytes() == last


def test_kill_and_resume_lose_and_double_nothing(ready, tmp_path_factory):
    # 11 steps an epoch and a prompt left over: the run is killed in the second epoch and ends in the fourth.
    write_rows(ready / "train.jsonl", sums(23))
    whole = tmp_path_factory.mktemp("whole") / "project"
    shutil.copytree(ready, whole)
    assert train(whole, *REASON).returncode == 0

    process = start_and_wait(ready, 17)
    process.kill()
    process.communicate()
    checkpoints = ready / "run/train/checkpoints"
    # The kill may also have cut a line and a checkpoint short.
    with open(ready / "run/train/logs/progress.jsonl", "a") as out:
        out.write('{"step": 99, "lo')
    shutil.copytree(checkpoints / "checkpoint-14", checkpoints / "checkpoint-38")
    (checkpoints / "checkpoint-38" / "trainer_state.json").unlink()

    refused = train(ready, *REASON)
    assert refused.returncode == 2 and "--resume" in refused.stderr
    done = train(ready, *REASON, "--resume")
    assert done.returncode == 0, done.stderr
    assert "going on from checkpoint-" in done.stderr
    lines, expected = progress(ready), progress(whole)
    assert [line["step"] for line in lines] == list(range(1, 41))
    assert lines[-1]["epoch"] == pytest.approx(40 / 11)
    for key in ("loss", "reward", "completions/mean_length", "entropy", "lr", "epoch"):
        assert [line[key] for line in lines] == pytest.approx([line[key] for line in expected], rel=1e-4, abs=1e-6), key
    starts = json.loads((ready / "run/train/run.json").read_text())["starts"]
    assert [s["from_step"] for s in starts][0] == 0 and starts[1]["from_step"] >= 14
    assert (checkpoints / "incomplete-38").is_dir()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_a_checkpoint_and_says_so(ready, number):
    edit(ready, "logging_steps: 1", "logging_steps: 3")
    process = start_and_wait(ready, 2)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number, errors
    step = progress(ready)[-1]["step"]
    assert f"stopped by {number.name} at step {step} of 40; checkpoint-{step} is saved; go on with --resume" in errors
    assert (ready / f"run/train/checkpoints/checkpoint-{step}/trainer_state.json").exists()
    assert not (ready / "run/train/result.json").exists()
    done = train(ready, *REASON, "--resume")
    assert done.returncode == 0, done.stderr
    # The step of the signal has a line of its own, so that nothing measured before it is lost.
    assert [line["step"] for line in progress(ready)] == sorted({*range(3, 41, 3), step, 40})


def test_lora_trains_resumes_and_saves_an_adapter_that_loads(ready):
    edit(ready, "model: {name_or_path: model}", "model: {name_or_path: model, lora: {r: 4}}")
    edit(ready, "max_steps: 40", "max_steps: 14")
    process = start_and_wait(ready, 9)
    process.kill()
    process.communicate()
    done = train(ready, *REASON, "--resume")
    assert done.returncode == 0, done.stderr
    assert [line["step"] for line in progress(ready)] == list(range(1, 15))
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(ready / "model"), ready / "run/train/model")
    assert any(p.abs().sum() > 0 for name, p in model.named_parameters() if "lora_B" in name)
    merged = train(ready, "--merge", "--json")
    assert merged.returncode == 0, merged.stderr
    assert json.loads(merged.stdout)["step"] == 14 and (ready / "run/train/merged/model.safetensors").exists()


def test_steps_inside_a_generation_cycle_have_their_lines_too(ready):
    edit(ready, "max_steps: 40", "max_steps: 6\n  num_iterations: 2")
    done = train(ready, *REASON)
    assert done.returncode == 0, done.stderr
    assert [line["step"] for line in progress(ready)] == [1, 2, 3, 4, 5, 6]


def test_a_reader_that_goes_away_does_not_stop_the_training(ready):
    edit(ready, "max_steps: 40", "max_steps: 5")
    process = subprocess.Popen([*TRAIN, str(ready / "config.yaml"), *REASON], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert [line["step"] for line in progress(ready)] == [1, 2, 3, 4, 5]


def test_a_failed_start_leaves_no_accuracy_of_other_rewards(ready):
    edit(ready, "max_steps: 40", "max_steps: 3")
    good = (ready / "rewards.py").read_text()
    bad = (
        "def letters(completions, row_id, **columns):\n"
        "    if row_id[0].startswith('train'):\n        raise RuntimeError('not yet')\n"
        "    return [1.0] * len(completions)\n"
    )
    (ready / "rewards.py").write_text(bad)
    failed = train(ready, *REASON)
    assert failed.returncode == 2 and "not yet" in failed.stderr
    (ready / "rewards.py").write_text(good)
    assert train(ready, *REASON).returncode == 0
    first = (ready / "run/train/logs/held_out/step-000000.jsonl").read_text().splitlines()[1:]
    assert {json.loads(line)["scores"]["letters"] for line in first} != {1.0}


def test_changed_held_out_rows_are_not_compared(ready):
    process = start_and_wait(ready, 17)
    process.kill()
    process.communicate()
    write_rows(ready / "eval.jsonl", sums(8, first=700))
    done = train(ready, *REASON, "--resume")
    assert done.returncode == 0, done.stderr
    result = json.loads((ready / "run/train/result.json").read_text())
    assert "held_out" not in result and "cannot be compared" in result["held_out_note"]


def test_training_refuses_without_a_gate(ready):
    done = train(ready)
    assert done.returncode == 1 and "no gate" in done.stderr
    assert not (ready / "run/train").exists()
    empty = train(ready, "--without-gate", " ")
    assert empty.returncode == 2 and "reason is empty" in empty.stderr


def test_the_most_published_recipe_passes_check_unchanged(project, untaught_model):
    shutil.copytree(untaught_model, project / "model")
    text = (project / "config.yaml").read_text()
    grpo = """grpo:
  num_generations: 8
  learning_rate: 5e-7
  beta: 0.01
  per_device_train_batch_size: 8
  gradient_accumulation_steps: 4
  seed: 3407
"""
    (project / "config.yaml").write_text(text[: text.index("grpo:")] + grpo + text[text.index("run:") :])
    done = train(project, "--check", "--json", *REASON)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["settings"]["learning_rate"] == 5e-7
    assert [f for f in result["findings"] if f["level"] == "error"] == []
    assert not (project / "run").exists()


def test_a_model_that_this_machine_cannot_get_is_a_warning_of_check_where_nothing_would_train(project):
    (project / "config.yaml").write_text((project / "config.yaml").read_text().replace("name_or_path: model", "name_or_path: owner/not-here"))
    done = train(project, "--check", "--json", *REASON)
    assert done.returncode == 0, done.stderr
    (found,) = [f for f in json.loads(done.stdout)["findings"] if f["code"] == "model-not-here"]
    assert found["level"] == "warning" and "owner/not-here cannot be loaded" in found["message"]
    assert "error (gate)" in train(project, "--check").stderr
    assert train(project, *REASON).returncode == 3


def without_network() -> dict[str, str]:
    """The environment of a machine whose network is down, where nobody has said so."""
    known = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY")}
    return {**known, "HF_ENDPOINT": "http://127.0.0.1:9"}


def test_prompts_that_cannot_be_measured_are_a_finding_of_check_and_stop_only_the_training(project):
    edit(project, "name_or_path: model", "name_or_path: owner/not-here")
    edit(project, "eval: eval.jsonl", "eval: eval.jsonl, max_prompt_tokens: 100")
    edit(project, "num_generations: 8", "num_generations: 4")
    done = train(project, "--check", "--json", *REASON, env=without_network())
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    (found,) = [f for f in answer["findings"] if f["code"] == "prompts-not-measured"]
    assert found["level"] == "warning" and "40 of data.train, 8 of data.eval" in found["message"] and "owner/not-here" in found["message"]
    assert {"small-group", "model-not-here"} <= {f["code"] for f in answer["findings"]}  # nothing else is hidden
    assert "Retrying" not in done.stderr and "Retrying" not in done.stdout
    assert "warning (prompts-not-measured)" in train(project, "--launch", env=without_network()).stderr
    stopped = train(project, "--json", *REASON, env=without_network())
    assert stopped.returncode == 3 and json.loads(stopped.stdout)["error"]["kind"] == "model" and "Retrying" not in stopped.stderr
    assert "is not on this machine, and the hub does not answer" in stopped.stdout


def test_check_answers_in_json_also_when_it_fails(project):
    done = train(project, "--check", "--json", *REASON)
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "model" and "there is no folder" in error["message"] and error["fix"]


def test_a_full_disk_is_refused_before_training(ready, monkeypatch):
    # A wrapper makes the disk look full, since a test cannot fill one.
    wrapper = ready / "full.py"
    wrapper.write_text(
        "import shutil, sys, runpy, collections\n"
        "shutil.disk_usage = lambda path: collections.namedtuple('usage', 'total used free')(10**12, 10**12, 1000)\n"
        f"sys.argv = sys.argv[1:]\nsys.path.insert(0, {str(ROOT / 'scripts')!r})\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, str(wrapper), TRAIN[1], str(ready / "config.yaml"), *REASON], capture_output=True, text=True, timeout=300)
    assert done.returncode == 3 and "GB free" in done.stderr
    assert not (ready / "run/train/logs/progress.jsonl").exists()
    # 40 steps, a checkpoint each 7: 6 of them, and the model saved at the end; float32 weights and two moments.
    from grpo_rlvr.training.settings import bytes_on_disk

    assert bytes_on_disk([(1000, 4, True), (500, 4, True)], lora=False, model_only=False, checkpoints=6) == 6 * 3 * 6000 + 6000
    assert bytes_on_disk([(1000, 2, False), (10, 4, True)], lora=True, model_only=True, checkpoints=2) == 3 * 40


def test_an_unscorable_completion_is_dropped_and_counted(ready):
    (ready / "rewards.py").write_text(
        "def letters(completions, **columns):\n"
        "    return [None if i % 4 == 0 else float(len(x[0]['content']) % 3 == 0) for i, x in enumerate(completions)]\n"
    )
    edit(ready, "max_steps: 40", "max_steps: 2")
    assert train(ready, *REASON).returncode == 0
    assert progress(ready)[0]["dropped_share"] == pytest.approx(0.25)


def test_a_reward_that_fails_stops_the_run_with_its_name(ready):
    (ready / "rewards.py").write_text("def letters(completions, **columns):\n    return [float('nan')] * len(completions)\n")
    done = train(ready, *REASON)
    assert done.returncode == 2 and "letters" in done.stderr and "Traceback" not in done.stderr


def test_the_template_finds_the_library_from_a_project_folder(ready):
    folder = ready / "a project of ä"
    folder.mkdir()
    shutil.copy(ROOT / "templates" / "train.py", folder)
    skill = folder / ".agents/skills/grpo-rlvr-training"
    skill.mkdir(parents=True)
    os.symlink(ROOT / "scripts", skill / "scripts")
    command = [sys.executable, "-P", "train.py", str(ready / "config.yaml"), "--check", *REASON]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_on_a_terminal_there_is_a_bar_with_figures_and_the_tables_are_kept_apart(ready, tmp_path):
    import pty

    import pandas

    edit(ready, "max_steps: 40", "max_steps: 4\n  log_completions: true\n  eval_strategy: steps\n  eval_steps: 2")
    edit(ready, "save_steps: 7", "save_steps: 4")
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "40"}
    command = [*TRAIN, str(ready / "config.yaml"), *REASON]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:  # the last process that had the terminal has closed it
            break
        if not part:
            break
        shown += part
    os.close(controller)
    assert process.wait(timeout=120) == 0, shown[-3000:].decode(errors="replace")
    text = shown.decode()
    for expected in ("training", "4/4", "dead groups", "tokens/s", "rollout", "update", "▁"):
        assert expected in text, text[-3000:]
    tables = ready / "run/train/checkpoints/completions"
    assert {t.name for t in tables.iterdir()} == {f"{kind}completions_0000{step}.parquet" for kind, step in (
        ("", 1), ("", 2), ("", 3), ("", 4), ("eval_", 0), ("eval_", 2), ("eval_", 4),
    )}  # fmt: skip
    trained, held_out = (pandas.read_parquet(tables / f"{kind}completions_00002.parquet") for kind in ("", "eval_"))
    numbers = [[int(row[0]["content"].split("+")[0]) for row in table["prompt"]] for table in (trained, held_out)]
    # TRL fills a table up with the rows before: the last eight are the evaluation's.
    assert len(numbers[0]) == 16 and max(numbers[0]) < 200 and sorted(numbers[1][-8:]) == list(range(900, 908))
    lines = progress(ready)
    for line in lines:
        assert line["tokens_per_s"] > 0 and line["share_rollout"] + line["share_reward"] + line["share_update"] == pytest.approx(1, abs=0.01)
