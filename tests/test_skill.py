"""SKILL.md and README.md say only what is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT

DOCUMENTS = ["SKILL.md", "README.md", "references/lifecycle.md"]
# What a light script needs of the project's dependencies; any other gets all of them and those of training.
LIGHT = {
    "memory_plan.py": {"pyyaml"},
    "check_environment.py": {"jsonschema", "pyyaml", "rich"},
    "diagnose.py": {"pyyaml"},
    "calibrate_judge.py": {"jsonschema", "math-verify", "pyyaml", "rich"},
}
NOT_OURS = {".git", ".venv", "__pycache__", "runs", "build", "dist", ".pytest_cache", ".ruff_cache", ".hypothesis", "grpo_rlvr_training.egg-info"}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_specification_accepts_the_skill(tmp_path):
    folder = tmp_path / "grpo-rlvr-training"
    folder.mkdir()
    shutil.copy(ROOT / "SKILL.md", folder)
    validator = Path(sys.executable).with_name("agentskills")
    done = subprocess.run([validator, "validate", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("document", [*DOCUMENTS, "CHANGELOG.md"])
def test_nothing_was_left_to_fill_in(document):
    assert re.findall(r"\b(?:TODO|TIMES|FIXME|XXX)\b", read(document)) == []


def test_the_skill_is_short():
    text = read("SKILL.md")
    assert len(text.splitlines()) < 200
    assert len(text.encode()) < 8000


@pytest.mark.parametrize("script", sorted(p.name for p in (ROOT / "scripts").glob("*.py")))
def test_help_shows_exit_codes_and_examples_without_heavy_imports_and_network(script):
    path = str(ROOT / "scripts" / script)
    run = f"runpy.run_path({path!r}, run_name='__main__')"
    block = "import socket; socket.socket.connect = socket.getaddrinfo = None\n"
    code = f"import sys, runpy; sys.argv = [{script!r}, '--help']\n{block}try: {run}\nfinally: print('torch' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "scripts"), "PATH": "/usr/bin:/bin"},
    )
    assert "exit codes: 0 yes; 1" in shown.stdout, shown.stderr
    assert shown.stdout.count(script) >= 3
    assert shown.stdout.splitlines()[-1] == "False"


def test_no_script_bears_the_name_of_a_module():
    names = {p.stem for p in (ROOT / "scripts").glob("*.py")}
    assert names.isdisjoint(sys.stdlib_module_names)


def test_no_path_of_a_machine_is_in_the_project():
    tracked = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and not NOT_OURS & set(p.relative_to(ROOT).parts)]
    pattern = re.compile(r"/(?:home|Users|root|work)/[a-z]")
    found = [
        f"{name}:{i}"
        for name in tracked
        if (ROOT / name).suffix in {".py", ".md", ".yaml", ".toml", ".json", ".txt", ""} and name != "tests/test_skill.py"
        for i, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "script", [*sorted((ROOT / "scripts").glob("*.py")), ROOT / "templates" / "train.py"], ids=lambda p: f"{p.parent.name}/{p.name}"
)
def test_inline_dependencies_are_those_of_the_project(script):
    project = tomllib.loads(read("pyproject.toml"))["project"]
    block = re.search(r"^# /// script\n((?:#.*\n)+?)# ///$", script.read_text(encoding="utf-8"), re.MULTILINE)[1]
    inline = tomllib.loads(re.sub(r"^# ?", "", block, flags=re.MULTILINE))
    extras = project["optional-dependencies"]
    expected = project["dependencies"] + extras["train"] + (extras["smollm2"] if script.name == "quickstart.py" else [])
    if script.name in LIGHT:
        expected = [d for d in project["dependencies"] if re.match(r"[\w-]+", d)[0] in LIGHT[script.name]]
    assert inline == {"requires-python": project["requires-python"], "dependencies": sorted(expected)}
    assert os.access(script, os.X_OK)
