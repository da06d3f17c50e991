"""Each script runs with the packages that it declares, under `python` and under `uv run`, and leaves the skill's folder as it was."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from conftest import CONFIG, sums, write_rows
from packaging.requirements import Requirement

from package.conftest import state, unzip

LIGHT = {
    "memory_plan.py": (["--model", "Qwen/Qwen2.5-0.5B-Instruct", "--gpu", "h100-80gb", "--json"], 0),
    "diagnose.py": (["--rules"], 0),
    "check_environment.py": (["--no-hub", "--json"], 3),  # torch is not there, and it says so
    "calibrate_judge.py": (["config.yaml", "--labels", "labels.jsonl", "--json"], 2),  # a config without a judge
}


def declared(script: Path) -> list[str]:
    block = re.search(r"^# /// script\n((?:#.*\n)+?)# ///$", script.read_text(encoding="utf-8"), re.MULTILINE)[1]
    return tomllib.loads(re.sub(r"^# ?", "", block, flags=re.MULTILINE))["dependencies"]


def with_all_they_need(requirements: list[str]) -> dict[str, Distribution]:
    """name -> the installed distributions that these requirements bring along."""
    found: dict[str, Distribution] = {}
    todo = [(Requirement(text), frozenset({""})) for text in requirements]
    done = set()
    while todo:
        needed, extras = todo.pop()
        if needed.marker and not any(needed.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        key = (needed.name.lower(), frozenset(needed.extras))
        if key not in done:
            done.add(key)
            found[needed.name.lower()] = distribution(needed.name)
            todo += [(Requirement(text), frozenset({"", *needed.extras})) for text in found[needed.name.lower()].requires or ()]
    return found


def only(requirements: list[str], site: Path) -> dict[str, str]:
    """An environment whose packages are those, by links; with `python -S` nothing else is seen."""
    site.mkdir()
    for dist in with_all_they_need(requirements).values():
        for top in {Path(f).parts[0] for f in dist.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(dist.locate_file(top)))
    return {**{k: v for k, v in os.environ.items() if not k.startswith("GRPO_")}, "PYTHONPATH": str(site)}


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "ein Projekt ü"
    folder.mkdir()
    write_rows(folder / "train.jsonl", sums(40))
    (folder / "config.yaml").write_text(
        CONFIG.replace(", eval: eval.jsonl", "").replace("name_or_path: model", "name_or_path: owner/name"), encoding="utf-8"
    )
    (folder / "labels.jsonl").write_text("")
    return folder


@pytest.mark.parametrize("script", LIGHT)
def test_a_light_script_needs_no_more_than_it_declares(script, skill, project, tmp_path):
    flags, code = LIGHT[script]
    environment = only(declared(skill / "scripts" / script), tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-S", str(skill / "scripts" / script), *flags], capture_output=True, text=True, cwd=project, env=environment
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr and "not installed: py" not in done.stdout + done.stderr
    assert script != "calibrate_judge.py" or "judge" in json.loads(done.stdout)["error"]["message"]
    assert script != "check_environment.py" or "torch" in done.stdout


def test_recorded_completions_are_inspected_without_what_training_needs(skill, project, tmp_path):
    """SKILL.md: `--completions` needs no torch. The packages are the project's own, without an extra."""
    dependencies = tomllib.loads((skill / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    lines = [
        json.dumps({"prompt_index": i, "completion": [{"role": "assistant", "content": f"<answer>{i + 1 + (k % 3 > 0)}</answer>"}], "finish": "stop"})
        for i in range(40)
        for k in range(8)
    ]
    (project / "recorded.jsonl").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-S", str(skill / "scripts/inspect_rewards.py"), "run", "config.yaml", "--completions", "recorded.jsonl", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, env=only(dependencies, tmp_path / "site"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["signal"]["samples"] == 320


@pytest.mark.parametrize("script", ["memory_plan.py", "diagnose.py"])
def test_uv_runs_a_light_script(script, skill, project):
    from uv import find_uv_bin  # of the test extra

    flags, code = LIGHT[script]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GRPO_", "PYTHON", "VIRTUAL_ENV"))}
    command = [find_uv_bin(), "run", "--quiet", "--python", sys.executable, str(skill / "scripts" / script), *flags]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, env=environment)
    assert done.returncode == code, done.stderr
    assert script != "memory_plan.py" or json.loads(done.stdout)["verdict"] == "FITS"


def test_use_leaves_no_bytecode_in_the_skill_and_lets_other_packages_keep_theirs(zip_file, project, tmp_path):
    """Also where the folder can be written; Python would put __pycache__ beside each module."""
    skill = unzip(zip_file, tmp_path / "skills")
    before = state(skill)
    (project / "rewards.py").write_text("import helper\n\n\ndef one(completions, answer, **columns):\n    return [1.0 for _ in completions]\n")
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/helper.py").write_text("")
    (project / "math.yaml").write_text((project / "config.yaml").read_text().replace("{use: exact}", "{use: math}"))
    (project / "own.yaml").write_text((project / "config.yaml").read_text().replace("{use: exact}", "{use: 'rewards.py:one'}"))
    shutil.copy(skill / "templates/train.py", project)
    (project / "recorded.jsonl").write_text(
        "".join(
            json.dumps({"prompt_index": i, "completion": [{"role": "assistant", "content": f"<answer>x+{i}</answer>"}]}) + "\n" for i in range(40)
        )
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(tmp_path / "packages"), "GRPO_RLVR_SKILL": str(skill)}
    commands = [[str(skill / "scripts" / name), *flags] for name, (flags, _) in LIGHT.items()]
    inspect = [str(skill / "scripts/inspect_rewards.py"), "run"]
    commands += [[*inspect, name, "--completions", "recorded.jsonl"] for name in ("math.yaml", "own.yaml")]  # math starts a process of its own
    commands += [[str(skill / "scripts" / name), "--help"] for name in ("train.py", "quickstart.py")]
    commands += [["train.py", "no.yaml", "--check"]]
    for command in commands:
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=project, env=environment)
        assert done.returncode in ((0, 1) if "run" in command else (0, 2, 3)) and "Traceback" not in done.stderr, done.stderr
    assert state(skill) == before
    assert [p.name for p in (tmp_path / "packages/__pycache__").iterdir()] != []
