"""`inspect_rewards.py run` on recorded completions, as a user calls it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import inspect_rewards
import pytest
from grpo_rlvr.errors import MissingError, UserError
from grpo_rlvr.inspection.jsonl import locked
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.samples import load_samples
from grpo_rlvr.inspection.select import load_selection

SCRIPT = Path(inspect_rewards.__file__)


def call(*args: str, **more) -> subprocess.CompletedProcess:
    env = {**os.environ, "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *args], capture_output=True, text=True, env=env, check=False, stdin=subprocess.DEVNULL, **more
    )


def test_help_is_quick_and_complete():
    started = time.monotonic()
    got = call("--help")
    assert got.returncode == 0 and time.monotonic() - started < 3  # 0.05 s when nothing else runs
    for word in ("exit codes: 0 yes", "inspect_rewards.py run config.yaml", "--completions takes", "prompt_index"):
        assert word in got.stdout
    code = (
        "import sys; sys.argv=['x','--help']\ntry:\n import inspect_rewards as i; i.main()\nexcept SystemExit: pass\n"
        "print(sorted(m for m in sys.modules if m in ('yaml','rich','torch','grpo_rlvr.config')))"
    )
    light = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=SCRIPT.parent, check=True)
    assert light.stdout.strip().endswith("[]")


def test_a_sound_project(project):
    project.write()
    got = call("run", str(project.config_path), "--completions", str(project.record()))
    assert got.returncode == 0 and got.stdout == ""
    assert "8 of 16" in got.stderr and "signal: go" in got.stderr and "probe mutated_answer: ok" in got.stderr and "next: read" in got.stderr
    signal = json.loads((project.inspection / "signal.json").read_text())
    assert signal["schema"] == "grpo-rlvr/signal/1" and signal["success"]["rate"] == 0.5 and signal["mean_scores"] == {"exact": 0.5}
    # 2 of 4 right in each prompt: a group of all four is never dead.
    dead = signal["dead_groups"]
    assert (dead["size"], dead["share"], dead["method"]) == (4, 0.0, "unbiased") and "dead groups of 4" in got.stderr
    assert "pass@k" in got.stderr and "never 0, to 1/3 0, to 2/3 4, below 1 0, always 0" in got.stderr and "median tokens: pass 10" in got.stderr
    selection = load_selection(project.inspection)
    assert len(selection) == 6 and sum(s["completion"].endswith(f">{s['columns']['answer']}</answer>") for s in selection) == 3
    lines = [json.loads(line) for line in (project.inspection / "scores.jsonl").read_text().splitlines()]
    assert lines[0]["schema"] == "grpo-rlvr/scores/1" and lines[1] == {
        "sample_id": load_samples(project.inspection)[0]["sample_id"], "scores": {"exact": 1.0}, "total": 1.0, "verdict": True,
    }  # fmt: skip


def test_a_flawed_reward_exits_1_with_the_proof(project):
    project.write("  - {use: 'steps.py:steps'}")
    got = call("run", str(project.config_path), "--completions", str(project.record()), "--json")
    result = json.loads(got.stdout)
    assert got.returncode == 1 and result["go"] is False and result["signal"]["verdict"] == "too_easy"
    assert result["probes"][0]["severity"] == "error" and "mend the reward" in result["next"]
    assert re.search(r"the smallest of them; answer '1\d' made '', total 0\.500 -> 0\.500", got.stderr)
    assert "    | <reasoning>" in got.stderr


def test_a_gold_that_its_reward_refuses_exits_1_with_the_row(project):
    project.write()
    record = project.record()
    path = project.folder / "train.jsonl"
    path.write_text(path.read_text() + json.dumps({"prompt": "no answer can hold this", "answer": "a<answer>b"}) + "\n")
    got = call("run", str(project.config_path), "--completions", str(record), "--json")
    result = json.loads(got.stdout)
    assert got.returncode == 1 and result["go"] is False and result["signal"]["verdict"] == "go"
    (finding,) = result["dataset"]
    assert (finding["check"], finding["severity"], finding["rows"]) == ("own_gold", "error", [6]) and "mend or remove these rows" in result["next"]
    assert "data check, reward exact: error: row 6: its own gold is not accepted" in got.stderr
    assert json.loads((project.inspection / "probes.json").read_text())["dataset"] == result["dataset"]


def test_a_note_of_the_data_check_says_what_to_do(project):
    project.write("  - {use: 'mine.py:named'}")
    (project.folder / "mine.py").write_text(
        "from grpo_rlvr.rewards import correctness_reward as exact\ndef named(completions, answer):\n    return exact(completions, answer=answer)\n"
        "named.honest_forms = exact.honest_forms\nnamed.test_count = lambda gold: 1\n"
    )
    got = call("run", str(project.config_path), "--completions", str(project.record()))
    assert "note: 6 of 6 rows have fewer than 3 tests (rows 0, 1, 2, 3, 4, 5 (from 0)): wrong programs pass so few\n    -> add tests" in got.stderr


def test_no_success_says_sft_first(project):
    project.write()
    got = call("run", str(project.config_path), "--completions", str(project.record([[1, 2, 3, 4]] * 2)))
    assert got.returncode == 1 and "sft_first" in got.stderr and "next: supervised fine-tuning" in got.stderr


def test_mistakes_exit_2_with_one_json_object(project):
    project.write()
    got = call("run", str(project.config_path), "--completions", "none.jsonl", "--json")
    assert got.returncode == 2 and json.loads(got.stdout)["error"]["kind"] == "completions"
    project.write(model="./none")
    got = call("run", str(project.config_path), "--json")
    assert got.returncode == 2 and "there is no folder" in json.loads(got.stdout)["error"]["message"]
    (project.folder / "train.jsonl").write_text('{"prompt": "a", "answer": "1"}\n{"prompt": "b", "answer": null}\n')
    got = call("run", str(project.config_path), "--json")
    assert got.returncode == 2 and "row 1" in json.loads(got.stdout)["error"]["message"]


def test_recorded_completions_need_no_torch(project):
    project.write()
    code = (
        "import sys, inspect_rewards as i; i.main(sys.argv[1:])\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'transformers', 'trl', 'datasets', 'numpy'}))"
    )
    args = ["run", str(project.config_path), "--completions", str(project.record())]
    got = subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        cwd=SCRIPT.parent,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert got.stdout.strip() == "[]"


def test_a_mended_reward_only_rescores(project, label_all):
    record = project.record()
    run_inspection(project.write("  - {use: 'steps.py:steps'}"), completions=record, quiet=True)
    before = (project.inspection / "samples.jsonl").read_bytes()
    label_all(project.inspection, count=3)
    read = [s["sample_id"] for s in load_selection(project.inspection)[:3]]
    result = run_inspection(project.write(), completions=record, quiet=True)
    assert result["go"] and (project.inspection / "samples.jsonl").read_bytes() == before
    assert set(read) <= {s["sample_id"] for s in load_selection(project.inspection)}  # what was read stays chosen


def test_recorded_completions_stay_for_a_plain_run_until_others_are_asked_for(project, capsys):
    record = project.record()
    run_inspection(project.write("  - {use: 'steps.py:steps'}"), completions=record, quiet=True)
    before = (project.inspection / "samples.jsonl").read_bytes()
    result = run_inspection(project.write(), quiet=True)  # there is no such model: sampling would fail
    assert result["go"] and (project.inspection / "samples.jsonl").read_bytes() == before
    assert "scoring the 16 recorded completions" in capsys.readouterr().err
    with pytest.raises(UserError, match="recorded for other inputs: model changed: org/model -> org/other"):
        run_inspection(project.write(model="org/other"), quiet=True)
    with pytest.raises(UserError, match="needs the column"):
        run_inspection(project.write("  - {use: schema}"), quiet=True)
    assert (project.inspection / "samples.jsonl").read_bytes() == before
    with pytest.raises(MissingError, match="org/model" if find_spec("torch") else "torch"):
        run_inspection(project.write(), redraw=True, quiet=True)


def test_other_completions_move_the_old_aside(project):
    config = project.write()
    run_inspection(config, completions=project.record(), quiet=True)
    old = (project.inspection / "samples.jsonl").read_bytes()
    run_inspection(config, completions=project.record([[0, 1]] * 4), quiet=True)
    assert len(load_samples(project.inspection)) == 8
    (aside,) = project.inspection.glob("samples.*.jsonl")
    assert aside.read_bytes() == old


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (18, lambda rows: rows.append(rows[-1])),
        (2, lambda rows: rows[1].pop("columns")),
        (2, lambda rows: rows[1].update(completion="something else <answer>15</answer>")),
        (5, lambda rows: rows[4].update(prompt="another?")),
        (17, lambda rows: rows[16].update(tokens="many")),
        (None, lambda rows: rows[3]["columns"].update(answer="99")),
    ],
)
def test_damaged_samples_are_found_and_a_run_mends_them(project, capsys, line, change):
    config, record = project.write(), project.record()
    run_inspection(config, completions=record, quiet=True)
    path = project.inspection / "samples.jsonl"
    sound = path.read_bytes()
    rows = [json.loads(text) for text in sound.decode().splitlines()]
    change(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if line:
        with pytest.raises(UserError, match=rf"samples\.jsonl line {line}: "):
            load_samples(project.inspection)
    run_inspection(config, completions=record, quiet=True)
    assert path.read_bytes() == sound and len(list(project.inspection.glob("samples.torn-*.jsonl"))) == 1
    assert "is torn or damaged" in capsys.readouterr().err


def test_two_runs_at_once_are_kept_apart(project):
    config = project.write()
    with locked(config.inspection_folder), pytest.raises(UserError, match="another inspection"):
        run_inspection(config, completions=project.record(), quiet=True)


def test_hostile_text_does_not_reach_the_terminal(project):
    (project.folder / "any.py").write_text("def any_text(completions, **k):\n    return [1.0] * len(completions)\n")
    project.write("  - {use: 'any.py:any_text'}")
    path = project.folder / "recorded.jsonl"
    path.write_text(json.dumps({"prompt_index": 0, "completion": "\x1b]0;owned\x07[bold red]5[/]\u202e<answer>7</answer>\udc80"}) + "\n")
    got = call("run", str(project.config_path), "--completions", str(path))
    assert got.returncode == 1 and "\x1b" not in got.stderr and "\u202e" not in got.stderr
    assert r"\x1b]0;owned\x07[bold red]5[/]\u202e<answer></answer>" + "\N{REPLACEMENT CHARACTER}" in got.stderr
