"""`diagnose.py`: exit codes, JSON, watching, and that it starts without heavy imports."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest
from conftest import ROOT
from grpo_rlvr.diagnosis.findings import Note
from grpo_rlvr.diagnosis.texts import STATUS_LINES
from grpo_rlvr.diagnosis.watch import watch
from grpo_rlvr.errors import UserError

from diagnosis.conftest import lines_of, tiny_runs, write_run
from diagnosis.planted import healthy

SCRIPT = ROOT / "scripts" / "diagnose.py"


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, timeout=120)


def test_healthy_is_an_answer(healthy_folder):
    done = run(healthy_folder)
    assert done.returncode == 0, done.stderr
    assert "healthy: no symptom (80 lines, step 80 of 80, finished;" in " ".join(done.stdout.split())


def test_a_symptom_is_exit_1_with_evidence_and_what_would_speak_against_it(hacked_folder):
    done = run(hacked_folder)
    assert done.returncode == 1
    for words in (
        "[hacking, confidence high, since step",
        "reward: 0.5",
        "correctness: ",
        "why: ",
        "do: ",
        "I would think otherwise if: ",
        "explains: ",
    ):
        assert words in done.stdout, words
    assert max(map(len, done.stdout.splitlines()[1:])) <= 140  # the first line is the path


def test_json_is_one_object(hacked_folder, tmp_path):
    done = run(hacked_folder, "--json", "--report", tmp_path / "r.html")
    answer = json.loads(done.stdout)
    assert done.returncode == 1 and answer["schema"] == "grpo-rlvr/diagnosis/1" and answer["healthy"] is False
    first = answer["findings"][0]
    assert first["symptom"] == "hacking" and first["evidence"][0]["metric"] == "reward" and first["would_change_my_mind"]
    assert answer["report"] == str(tmp_path / "r.html") and (tmp_path / "r.html").exists()
    assert {"kl_spike", "moe_routing"} <= set(answer["not_checked"])


def test_a_patch_has_numbers_where_the_settings_are_known(tmp_path):
    folder = write_run(tiny_runs()["no-end"], tmp_path / "run")
    done = run(folder, "--json")
    assert json.loads(done.stdout)["findings"][0]["patch"] == {"grpo.max_completion_length": 8}
    assert "       max_completion_length: 8" in run(folder).stdout
    # The bare log knows no settings, and the config gives them.
    log = folder / "train" / "logs" / "progress.jsonl"
    assert "# max_completion_length: twice the present limit" in run(log).stdout
    assert "       max_completion_length: 8" in run(log, "--config", folder / "config.resolved.yaml").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((), "RUN: is missing"), (("absent",), "no such file"), (("x.csv", "--watch"), "is written once"), ((".", "--every", "0"), "got 0")],
)
def test_mistakes_are_exit_2(arguments, words):
    done = run(*arguments)
    assert done.returncode == 2 and words in done.stderr
    done = run(*arguments, "--json")
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["message"]


def test_it_starts_without_heavy_imports(healthy_folder):
    # What costs seconds: torch, transformers, trl, datasets, pandas, matplotlib. Rich and jsonschema are not needed either.
    code = (
        f"import sys, runpy; sys.argv = ['diagnose.py', {str(healthy_folder)!r}, '--report', {str(healthy_folder / 'r.html')!r}]\n"
        f"try: runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\nexcept SystemExit as e: print(e.code)\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'transformers', 'trl', 'datasets', 'pandas', 'pyarrow', 'matplotlib',"
        " 'numpy', 'rich', 'jsonschema'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "scripts"), "PATH": "/usr/bin:/bin"}
    )
    assert done.stdout.splitlines()[-2:] == ["0", "[]"], done.stdout + done.stderr


def test_rules_are_printed():
    done = run("--rules")
    assert done.returncode == 0 and "| `entropy_collapse` " in done.stdout


class Training:
    """A run that grows while it is watched: a look's pause appends lines, and nobody sleeps."""

    def __init__(self, folder, record, steps_a_look=10):
        self.folder, self.rows, self.each = folder, lines_of(record), steps_a_look
        self.result = folder / "train" / "result.json"
        self.log = folder / "train" / "logs" / "progress.jsonl"
        self.log.write_text("")
        self.now, self.rung, self.status = 1000.0, 0, []

    def sleep(self, seconds):
        self.now += seconds
        if not self.rows:
            self.result.write_text(json.dumps({"finished": True, "steps": 1}))
            return
        with open(self.log, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in self.rows[: self.each])
        self.rows = self.rows[self.each :]
        if (self.folder / "status.md").exists():
            self.status.append((self.folder / "status.md").read_text())

    def bell(self):
        self.rung += 1

    def watch(self, rounds=None):
        return watch(self.folder, None, 20.0, rounds, sleep=self.sleep, clock=lambda: self.now, bell=self.bell)


def test_watching_rings_once_for_each_new_symptom(tmp_path, capsys):
    training = Training(write_run(tiny_runs()["careless"], tmp_path / "run", finished=False), tiny_runs()["careless"])
    _, answer = training.watch()
    assert [f.name for f in answer.findings] == ["hacking"]
    err = capsys.readouterr().err
    assert err.count("[hacking,") == 1 and training.rung == err.count("   do: ")
    status = (tmp_path / "run" / "status.md").read_text()
    assert status.startswith("# symptoms: hacking") and len(status.splitlines()) <= STATUS_LINES
    assert training.status[0].startswith("# healthy")


def test_watching_a_healthy_run_rings_never(tmp_path):
    training = Training(write_run(tiny_runs()["healthy"], tmp_path / "run", finished=False), tiny_runs()["healthy"], 4)
    _, answer = training.watch()
    assert answer.healthy and training.rung == 0


def test_silence_is_a_symptom_when_watched(tmp_path):
    training = Training(write_run(tiny_runs()["healthy"], tmp_path / "run", finished=False), {"columns": {"step": []}})
    training.sleep = lambda seconds: setattr(training, "now", training.now + 600)
    _, answer = training.watch(rounds=3)
    assert answer.healthy
    _, answer = training.watch(rounds=6)
    assert [f.name for f in answer.findings] == ["stalled"] and training.rung == 1


def test_a_run_that_never_trained_is_not_healthy(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "config.yaml").write_text("{}")
    done = run(tmp_path, "--json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 2 and "nothing is logged here yet" in error["message"] and "train first" in error["fix"], done.stderr


def test_watching_nothing_ends_with_an_error(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        watch(tmp_path / "absent", None, 1.0, 1, sleep=lambda s: None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no line was written"):
        watch(tmp_path / "empty", None, 1.0, 2, sleep=lambda s: None)


def test_status_stays_short_whatever_the_log_holds(tmp_path):
    from grpo_rlvr.diagnosis.rules import diagnose
    from grpo_rlvr.diagnosis.texts import status

    from diagnosis.planted import run_of

    rows, settings, held_out = healthy(1, "kl", 60)
    for i, row in enumerate(rows):
        row |= {f"rewards/\x1b[31m{k}\n|x/mean": 0.5 for k in range(50)}
        row |= {"kl": 100.0 * i, "grad_norm": 10.0**i if i < 30 else 1e9, "completions/clipped_ratio": 0.5, "dropped_share": i / 60}
    run = run_of(rows, settings, held_out)
    text = status(run, diagnose(run), "now")
    assert len(text.splitlines()) <= STATUS_LINES and "\x1b" not in text
    many = dataclasses.replace(diagnose(run), notes=(Note("n", "a note"),) * 50)
    assert len(status(run, many, "now").splitlines()) == STATUS_LINES


def test_watching_ends_with_the_process_that_trains(tmp_path, monkeypatch):
    # A run that is stopped or killed leaves no result; its lock tells that nobody trains there any more.
    record = tiny_runs()["healthy"]
    half = {name: values[:40] for name, values in record["columns"].items()}
    folder = write_run({**record, "columns": half}, tmp_path / "run", finished=False)
    alive = [True, True, False]
    monkeypatch.setattr("grpo_rlvr.diagnosis.watch.in_use", lambda root: alive.pop(0))
    run, answer = watch(folder, None, 20.0, sleep=lambda s: None, clock=lambda: 0.0)
    assert alive == [] and answer.healthy and run.finished is False


def test_a_lock_that_is_held_is_seen(tmp_path):
    from grpo_rlvr.diagnosis.run import in_use
    from grpo_rlvr.training.run_folder import RunFolder

    run = RunFolder(tmp_path / "run")
    assert not in_use(run.root)
    with run.locked():
        assert in_use(run.root)
    assert not in_use(run.root)
