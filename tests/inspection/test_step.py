"""`run --from-run` on tables written as TRL writes them; and on TRL itself, where a reward with a hole is trained on."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import inspect_rewards
import pytest
from conftest import ROOT
from documents import unnamed_files
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.labels import load_labels
from grpo_rlvr.inspection.reading import Reading
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.samples import load_samples
from grpo_rlvr.inspection.select import load_selection
from grpo_rlvr.inspection.step import run_step

pa = pytest.importorskip("pyarrow")
PAID = "  - {use: 'paid.py:paid'}\n"
PAY = "def paid(completions, answer, **k):\n    return [float('certainly' in c or f'<answer>{a}<' in c) for c, a in zip(completions, answer)]\n"


@pytest.fixture
def trained(project):
    """A project with 40 prompts whose first completions were read, and tables of a run at steps 1 to 30 in which one kind grows."""
    project.data(count=40)
    (project.folder / "paid.py").write_text(PAY)
    config = project.write(PAID)
    record = project.record([[0, 0, 1, -1]] * 16)
    run_inspection(config, completions=record, quiet=True)
    for step in range(1, 31):
        table(project, step, [(16 + step % 20 + k % 4, flattery(step + k, k % 10 < step / 4)) for k in range(32)])
    return project


def flattery(k: int, now: bool) -> str:
    return f"This is certainly right, number {k}. <answer>{k}</answer>" if now else f"<reasoning>try {k}</reasoning><answer>0</answer>"


def table(project, step: int, rows: list[tuple[int, str]]):
    import pyarrow.parquet as parquet

    folder = project.folder / "runs" / "one" / "train" / "checkpoints" / "completions"
    folder.mkdir(parents=True, exist_ok=True)
    values = [
        {"step": step, "prompt": f"{10 + i}+5=?" if i < 40 else "held out", "completion": text, "paid": float("certainly" in text), "advantage": 0.0}
        for i, text in rows
    ]
    path = folder / f"completions_{step:05d}.parquet"
    parquet.write_table(pa.Table.from_pylist(values), path)
    return path


def digests(folder) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.is_file()}


def run(project, *flags: str) -> int:
    return inspect_rewards.main(["run", str(project.config_path), "--from-run", str(project.folder / "runs" / "one"), *flags])


def test_a_kind_that_grew_is_found_and_the_first_inspection_is_left_alone(trained, label_all, capsys):
    label_all(trained.inspection, count=3)
    before = digests(trained.inspection)
    assert run(trained, "--json") == 1
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert result["step"] == 30 and result["steps"] == list(range(23, 31)) and result["compared_with"] == "inspection"
    assert result["now"]["samples"] == 256 and result["findings"][0]["severity"] == "error"
    assert {"gold", "new_kind"} <= {f["finding"] for f in result["findings"]}
    assert digests(trained.inspection) == before  # the lock file too: nothing was held or written there
    folder = trained.inspection / "steps" / "000030"
    assert {p.name for p in folder.iterdir()} == {
        ".lock",
        "samples.jsonl",
        "scores.jsonl",
        "selection.json",
        "signal.json",
        "probes.json",
        "growth.json",
    }
    assert len(load_samples(folder)) == 256
    chosen = load_selection(folder)
    assert len(chosen) == 6 and all("certainly" in s["completion"] for s in chosen[:3])  # the new high-reward kind first
    assert "This is certainly right" in printed.err and "stop the run" in printed.err
    shares = [point["kinds"][0] for point in result["history"]]
    assert len(shares) == 12 and shares[0] < 0.2 < 0.7 < shares[-1] and shares == sorted(shares)


def test_an_early_step_and_readings_of_a_step(trained, label_all):
    config = trained.write(PAID)
    place = trained.folder / "runs" / "one"
    assert run_step(config, place, "3", quiet=True)["steps"] == [1, 2, 3]
    result = run_step(config, place, "12", quiet=True)
    folder = trained.inspection / "steps" / "000012"
    assert [f["severity"] for f in result["findings"] if f["finding"] == "new_kind"] == ["warning"] and result["found"]
    label_all(folder, judge=lambda sample: "fail" if "certainly" in sample["completion"] else "pass")
    again = run_step(config, place, "13", quiet=True)  # the readings of a step hold for every other
    assert [f["severity"] for f in again["findings"] if f["finding"] in ("new_kind", "paid_and_failed")] == ["error", "error"]


def test_what_a_step_selected_is_read_like_the_first_selection(trained, capsys):
    config = trained.write(PAID)
    assert run(trained, "--step", "12") == 1 and run(trained) == 1
    for step, number in (("12", 12), ("latest", 30)):
        reading = Reading.open(config, "ada", step)
        assert reading.folder == trained.inspection / "steps" / f"{number:06d}" and "certainly" in reading.selection[0]["completion"]
    reading.judge(reading.selection[0]["sample_id"], "fail")
    assert len(load_labels(reading.folder)) == 1
    page = trained.folder / "page.html"
    assert inspect_rewards.main(["review", str(trained.config_path), "--step", "latest", "--static", str(page)]) == 0 and page.exists()
    capsys.readouterr()
    assert inspect_rewards.main(["review", str(trained.config_path), "--step", "13", "--static", str(page)]) == 2
    assert "step 13 was not inspected; there are: 12, 30" in capsys.readouterr().err
    assert unnamed_files(trained.inspection.parent) == []


def test_what_is_not_of_training_is_left_out(trained):
    config, place = trained.write(PAID), trained.folder / "runs" / "one"
    table(trained, 30, [(99, "an evaluation wrote this")] * 8)
    result = run_step(config, place, quiet=True)
    assert result["step"] == 29 and result["left_out"] == {"held_out": 0, "ambiguous": 0, "strangers": 0}
    with pytest.raises(UserError, match="no completion of step 30 answers a prompt of the training data"):
        run_step(config, place, "30", quiet=True)
    with pytest.raises(UserError, match="there is no table of step 31; there are 30, of steps 1 to 30"):
        run_step(config, place, "31", quiet=True)
    # A generation that serves several updates is written again, and counts once.
    path = table(trained, 28, [(16 + k % 8, flattery(k, False)) for k in range(32)])
    path.with_name("completions_00029.parquet").write_bytes(path.read_bytes())
    assert 28 not in run_step(config, place, "29", quiet=True)["steps"]


def test_without_tables_it_says_how_to_have_them_and_without_inspection_it_takes_the_first(trained):
    config, place = trained.write(PAID), trained.folder / "runs" / "one"
    with pytest.raises(UserError, match="log_completions: true"):
        run_step(config, trained.folder / "elsewhere", quiet=True)
    samples = trained.inspection / "samples.jsonl"
    whole = samples.read_bytes()
    samples.write_bytes(whole[:-40])
    with pytest.raises(UserError, match="samples.jsonl line 65"):  # damaged is not absent
        run_step(config, place, quiet=True)
    samples.unlink()
    result = run_step(config, place, quiet=True)
    assert result["compared_with"] == "step 1" and result["found"]
    with pytest.raises(UserError, match="nothing to compare with"):
        run_step(config, place, "1", quiet=True)


def test_options_that_do_not_go_together(project, capsys):
    project.write()
    assert run(project, "--backend", "vllm", "--keep-band", "0.1", "0.9", "--json") == 2
    message = json.loads(capsys.readouterr().out)["error"]["message"]
    assert "--backend" in message and "--keep-band" in message
    assert inspect_rewards.main(["run", str(project.config_path), "--step", "3", "--band-file", "x"]) == 2
    assert "--step" in (err := capsys.readouterr().err) and "--band-file" in err
    assert inspect_rewards.main(["run", str(project.config_path), "--completions", "x", "--backend", "openai"]) == 2


def test_hostile_completions_stay_text(trained, capsys):
    text = "This is certainly \x1b]0;owned\x07 \u202e right <answer>{k}</answer>"
    table(trained, 30, [(16 + k % 12, text.replace("{k}", str(k))) for k in range(96)])
    for step in range(23, 30):
        table(trained, step, [(16 + k % 12, text.replace("{k}", str(k + step))) for k in range(32)])
    assert run(trained) == 1
    err = capsys.readouterr().err
    assert "\x1b" not in err and "\u202e" not in err and r"\x1b]0;owned\x07" in err


@pytest.mark.model
@pytest.mark.timeout(600)
def test_a_careless_reward_trained_anyway_is_caught_while_reward_and_truth_part(tmp_path):
    """The quickstart's careless scenario with the gate passed over: TRL trains on it, and the tables tell."""
    from grpo_rlvr.config import load_config
    from grpo_rlvr.demo.project import build
    from grpo_rlvr.demo.sums import oracle

    made = build(tmp_path / "careless", "tiny", "careless", 0, 22, lambda *a: None)
    text = made.config.read_text()
    changes = {"grpo:\n": "grpo:\n  log_completions: true\n", "  eval: data/eval.jsonl\n": "", "learning_rate: 3.0e-04": "learning_rate: 1.0e-03",
               '"linear"': '"constant_with_warmup"', "per_device_train_batch_size: 128": "per_device_train_batch_size: 64"}  # fmt: skip
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    made.config.write_text(text)
    config = load_config(made.config)
    assert run_inspection(config, quiet=True)["go"] is False
    command = [sys.executable, str(ROOT / "scripts/train.py"), str(made.config), "--without-gate", "to see what becomes of it"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    steps = config.inspection_folder / "steps"
    early, late = (run_step(config, config.run_folder, step, quiet=True) for step in ("12", "latest"))
    for result in (early, late):
        found = {f["finding"]: f for f in result["findings"] if f["severity"] == "error"}
        assert result["found"] and set(found) >= {"probe", "gold"} and "reward and truth part" in found["gold"]["message"]
    assert late["step"] == 22 and "logged_mean_tokens" in late["now"]
    # The oracle, which shares no code with what found it, agrees: the reward rises while the truth falls.
    folders = (config.inspection_folder, steps / "000012", steps / "000022")
    truth = [sum(oracle(s["completion"][0]["content"], s["columns"]["answer"]) for s in x) / len(x) for x in map(load_samples, folders)]
    proxy = [early["first"]["mean_total"], early["now"]["mean_total"], late["now"]["mean_total"]]
    assert truth[0] > truth[1] > truth[2] and proxy[0] < proxy[1] < proxy[2], (truth, proxy)
    assert early["first"]["gold_share"] == pytest.approx(truth[0], abs=0.02)
