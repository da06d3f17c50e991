"""evals.json, triggers.json and the scripts that run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import make_files
import pytest
import run
import triggers
from agent import run_agent
from conftest import ROOT
from graders.left import Left
from graders.scoring import Case, judge
from graders.task import EVALS, grade, inputs, tasks
from graders.words import says
from prepare import prepare

from evals.leaving import change

TASKS = tasks()
AGENT = Path(__file__).resolve().parent / "fake_agent.py"


def test_evals_json_has_the_form_of_the_convention():
    whole = json.loads((EVALS / "evals.json").read_text())
    assert whole["skill_name"] == "grpo-rlvr-training" and len(whole["evals"]) == len(TASKS) >= 8
    for task in whole["evals"]:
        assert set(task) == {"id", "prompt", "expected_output", "files", "assertions"}
        assert task["prompt"] and task["expected_output"] and task["assertions"]
        assert all((ROOT / name).is_file() for name in task["files"]), task["id"]
        assert len(set(task["assertions"])) == len(task["assertions"])


def test_every_input_file_belongs_to_a_task():
    named = {path.resolve() for task in TASKS.values() for path in inputs(task).values()}
    assert {p.resolve() for p in (EVALS / "files").rglob("*") if p.is_file()} == named


def test_no_prompt_names_a_script_of_the_skill():
    scripts = [p.name for p in (ROOT / "scripts").glob("*.py")]
    assert [t["id"] for t in TASKS.values() if any(s in t["prompt"] for s in scripts)] == []


def test_the_generated_files_are_those_of_the_generator(tmp_path, monkeypatch):
    monkeypatch.setattr(make_files, "FILES", tmp_path)
    for make in make_files.MAKERS:
        make()
    made = [p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file()]
    assert len(made) > 12
    assert [str(n) for n in made if (tmp_path / n).read_text() != (EVALS / "files" / n).read_text()] == []


def test_triggers_are_ten_and_ten():
    queries = json.loads((EVALS / "triggers.json").read_text())
    assert all(set(q) == {"query", "should_trigger"} for q in queries)
    assert [sum(q["should_trigger"] is wanted for q in queries) for wanted in (True, False)] == [10, 10]
    assert len({q["query"] for q in queries}) == 20


def test_the_readme_names_each_task():
    text = (EVALS / "README.md").read_text()
    assert [name for name in TASKS if f"`{name}`" not in text] == []


# ---- folders
def test_with_the_skill_the_folder_has_it_and_neither_graders_nor_tests(tmp_path):
    prepare(TASKS["dead-groups"], tmp_path, ".claude/skills")
    skill = tmp_path / ".claude/skills/grpo-rlvr-training"
    assert (skill / "SKILL.md").is_file() and (skill / "scripts/train.py").is_file() and (tmp_path / "wandb_export.csv").is_file()
    assert not [p for p in tmp_path.rglob("*") if p.name in ("evals", "tests", "benchmarks", "graders", "evals.json")]


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    done = subprocess.run([sys.executable, EVALS / "prepare.py", "dead-groups", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and "not empty" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


# ---- the reward's process
def reward_file(folder: Path, body: str) -> Left:
    (folder / "rewards.py").write_text(body)
    return Left(folder, "")


CASE = Case("right", "<answer>1</answer>", {"answer": "1"})


def test_a_reward_that_hangs_ends_at_the_limit(tmp_path):
    left = reward_file(tmp_path, "import time\n\n\ndef reward(completions, **columns):\n    time.sleep(600)\n")
    assert judge(left, CASE, [], timeout_s=1) == ({}, "the reward did not return within 1 s")


@pytest.mark.parametrize("body", ["import os\nos._exit(0)\n", "def reward(completions, **columns):\n    raise SystemExit(0)\n", "x = (\n", ""])
def test_a_reward_that_ends_its_process_or_cannot_be_read_is_no_reward(tmp_path, body):
    paid, problem = judge(reward_file(tmp_path, body), CASE, [])
    assert paid == {} and problem


def test_a_reward_cannot_change_what_is_graded(tmp_path):
    body = "import pathlib\npathlib.Path('report.md').write_text('x')\n\n\ndef reward(completions, **columns):\n    return [1.0] * len(completions)\n"
    paid, problem = judge(reward_file(tmp_path, body), CASE, [CASE])
    assert (paid, problem) == ({"right": True}, "") and not (tmp_path / "report.md").exists()


def test_a_folder_that_cannot_be_copied_is_a_failure_and_no_crash(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    paid, problem = judge(reward_file(tmp_path, "def reward(completions, **columns):\n    return [1.0] * len(completions)\n"), CASE, [])
    assert paid == {} and "cannot be copied" in problem


@pytest.mark.parametrize("name", ["7b-24gb", "old-trl", "two-gpus"])
def test_no_code_of_the_agents_runs_in_the_grader(tmp_path, name):
    prepare(TASKS[name], tmp_path, None)
    (tmp_path / "rewards.py").write_text("import os\nos._exit(0)\n\n\ndef reward(completions, **columns):\n    return []\n")
    change(tmp_path, model={"name_or_path": "a/b"}, data={"train": "data/train.jsonl"}, rewards=[{"use": "rewards.py:reward"}])
    assert grade(TASKS[name], tmp_path, "done", only="")["summary"]["failed"] > 0


def test_a_word_that_is_denied_nine_thousand_times_is_denied():
    assert not says("do not SFT " * 9_000 + "without SFT", r"\bSFT\b")


# ---- agents
def test_what_an_agent_leaves_running_is_ended(tmp_path):
    (tmp_path / "work").mkdir()
    ran = run_agent("sleep 300 & echo $! > pid; echo said", tmp_path / "work", "hello", tmp_path, 60, sys.executable)
    assert (ran["status"], ran["answer"], (tmp_path / "prompt.txt").read_text()) == ("done", "said\n", "hello")
    pid = int((tmp_path / "work/pid").read_text())
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(0.05)
    pytest.fail("the agent's sleeper is still there")


def test_an_agent_that_does_not_end_is_a_timeout_and_is_graded(tmp_path):
    (tmp_path / "work").mkdir()
    ran = run_agent("echo half; sleep 300", tmp_path / "work", "hello", tmp_path, 3, sys.executable)
    assert (ran["status"], ran["exit_code"], ran["answer"]) == ("timeout", None, "half\n")


def call(out: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        str(EVALS / "run.py"),
        "--agent-command",
        f"{sys.executable} {AGENT} {{prompt_file}} {{answer_file}}",
        "--out",
        str(out),
    ]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300)


def test_one_command_runs_grades_and_goes_on(tmp_path):
    done = call(tmp_path / "out", "--only", "preferences", "dead-groups", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out/results.json").read_text())
    by = {(r["id"], r["condition"]): r for r in result["runs"]}
    # The fake agent knows what to do about preferences only where the skill is there, and does nothing else.
    assert by["preferences", "with_skill"]["summary"]["pass_rate"] == 1.0
    assert by["preferences", "without_skill"]["summary"]["pass_rate"] < 0.5
    assert by["dead-groups", "with_skill"]["summary"]["failed"] > 0
    assert result["summary"]["by_condition"]["with_skill"]["runs"] == 2
    assert "| preferences | 100% |" in done.stdout and (tmp_path / "out/benchmark.md").read_text() == done.stdout

    # What is graded is kept; what was cut short is done again.
    kept = tmp_path / "out/preferences/with_skill/1" / "work" / "visits.txt"
    (tmp_path / "out/dead-groups/with_skill/1/grading.json").unlink()
    again = call(tmp_path / "out", "--only", "preferences", "dead-groups")
    assert again.returncode == 0 and kept.read_text() == "visit\n"
    assert json.loads((tmp_path / "out/results.json").read_text())["summary"].keys() == result["summary"].keys()
    assert (tmp_path / "out/dead-groups/with_skill/1/grading.json").is_file()


def test_the_triggers_are_asked_through_the_same_agent(tmp_path, monkeypatch, capsys):
    """The fake agent opens the skill for whatever says GRPO or RL as a word."""
    asked = [("a GRPO run", True), ("a PPO run", False), ("RL for a gym", False), ("a reward for TRL", True)]
    (tmp_path / "queries.json").write_text(json.dumps([{"query": q, "should_trigger": s} for q, s in asked]))
    monkeypatch.setattr(triggers, "QUERIES", tmp_path / "queries.json")
    command = ["--agent-command", f"{sys.executable} {AGENT} {{prompt_file}} {{answer_file}}", "--triggered-by", "I open the skill"]
    assert run.main([*command, "--out", str(tmp_path / "out"), "--triggers"]) == 0
    result = json.loads((tmp_path / "out/triggers.json").read_text())
    assert [(r["trigger_rate"], r["pass"]) for r in result["results"]] == [(1.0, True), (0.0, True), (1.0, False), (0.0, False)]
    assert capsys.readouterr().out == "2 of 4 queries as they should be\n"


def test_a_folder_within_the_project_is_refused():
    done = call(ROOT / "runs/evals", "--only", "preferences")
    assert done.returncode == 2 and "find the graders" in done.stderr and not (ROOT / "runs/evals").exists()


def test_the_table_has_a_row_a_task_and_one_for_all():
    summary = {"pass_rate": 0.5, "failed": 1}
    runs = [{"id": i, "condition": c, "seconds": 10, "summary": summary} for i in ("a", "b") for c in run.CONDITIONS]
    lines = run.table(run.summarize(runs)).splitlines()
    assert len(lines) == 5 and lines[-1] == "| all | 50% | 0% | 10 | 50% | 0% | 10 |"
