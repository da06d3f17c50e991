"""A copied recipe finds the library where a project has it, says which one it took, and says what is wrong where it finds none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, sums, write_rows

NAME = "grpo-rlvr-training"
RECIPE = ROOT / "templates" / "train.py"


def library(folder: Path, version: str) -> Path:
    """The folder `folder`/scripts with a library of that version; returns `folder`/scripts."""
    shutil.copytree(ROOT / "scripts/grpo_rlvr", folder / "scripts/grpo_rlvr", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "scripts/grpo_rlvr/version.py").write_text(f'__version__ = "{version}"\n')
    return folder / "scripts"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a recipe of its own in a folder; all above is made by the test."""
    folder = tmp_path / "mein Projekt ü"
    (folder / "training").mkdir(parents=True)
    (folder / ".git").mkdir()
    shutil.copy(RECIPE, folder / "training")
    return folder


def check(project: Path, *flags: str, cwd: Path | None = None, isolated: bool = False, **environment: str):
    """Run the project's recipe as far as a config that is not there; stderr tells what it took."""
    command = [sys.executable, *(["-S"] if isolated else []), str(project / "training/train.py"), "no.yaml", "--check", *flags]
    home = project.parent / "home"
    known = {k: v for k, v in os.environ.items() if k not in ("GRPO_RLVR_SKILL", "PYTHONPATH", "RANK")}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd or project, env={**known, "HOME": str(home), **environment})


@pytest.mark.parametrize("place", ["project/.agents", "project/.claude", "project/training/.agents", "home/.agents", "home/.claude"])
def test_it_is_found_in_the_skills_folders(project, tmp_path, place):
    (tmp_path / "project").symlink_to(project)
    taken = library((tmp_path / place).resolve() / "skills" / NAME, "7.0.1")
    # From the folder, and from anywhere else: the recipe knows where it lies.
    for cwd in (project, tmp_path):
        done = check(project, cwd=cwd)
        assert done.returncode == 2 and "no.yaml" in done.stderr, done.stderr
        assert done.stderr.count(f"library: grpo_rlvr 7.0.1 in {taken}\n") == 1


def test_it_is_found_from_the_working_folder_where_the_recipe_lies_elsewhere(project, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    taken = library(elsewhere / ".agents/skills" / NAME, "7.0.1")
    (elsewhere / "deep/er").mkdir(parents=True)
    assert f"7.0.1 in {taken}\n" in check(project, cwd=elsewhere / "deep/er").stderr


def test_what_the_variable_names_comes_before_what_lies_beside_it_and_that_before_a_skills_folder(project, tmp_path):
    library(project / ".agents/skills" / NAME, "7.0.3")
    vendored = library(project / "vendor", "7.0.2")
    shutil.move(vendored / "grpo_rlvr", project / "training/grpo_rlvr")
    said = check(project).stderr
    assert (
        f"library: grpo_rlvr 7.0.2 in {project / 'training'}\n" in said
        and f"not used: 7.0.3 in {project / '.agents/skills' / NAME}/scripts\n" in said
    )
    named = library(tmp_path / "a skill", "7.0.1")
    for value in (str(tmp_path / "a skill"), "../a skill/"):
        said = check(project, GRPO_RLVR_SKILL=value).stderr
        assert f"library: grpo_rlvr 7.0.1 in {named}\n" in said and "not used: 7.0.2" in said and "not used: 7.0.3" in said


def test_an_installed_one_is_the_last_and_its_other_version_is_named(project, tmp_path):
    site = library(tmp_path / "site", "7.0.9")
    (site / "grpo_rlvr_training-7.0.9.dist-info").mkdir()
    (site / "grpo_rlvr_training-7.0.9.dist-info/METADATA").write_text("Metadata-Version: 2.4\nName: grpo-rlvr-training\nVersion: 7.0.9\n")
    assert f"library: grpo_rlvr 7.0.9 in {site}\n" in check(project, PYTHONPATH=str(site)).stderr
    taken = library(project / ".agents/skills" / NAME, "7.0.1")
    said = check(project, PYTHONPATH=str(site)).stderr
    assert f"library: grpo_rlvr 7.0.1 in {taken}\n  not used: 7.0.9 in the installed packages\n" in said


def test_one_above_the_projects_root_is_not_taken(project, tmp_path):
    library(tmp_path / ".agents/skills" / NAME, "7.0.1")
    done = check(project, "--json", isolated=True)
    assert done.returncode == 3 and json.loads(done.stdout)["error"]["kind"] == "missing"
    assert str(project / ".agents/skills" / NAME / "scripts") in done.stderr and "GRPO_RLVR_SKILL" in done.stderr


@pytest.mark.parametrize("value", ["nowhere", "{project}/training"])
def test_a_variable_that_points_nowhere_is_a_mistake_even_where_there_is_another_library(project, value):
    library(project / ".agents/skills" / NAME, "7.0.1")
    done = check(project, "--json", GRPO_RLVR_SKILL=value.format(project=project))
    assert done.returncode == 2
    said = json.loads(done.stdout)["error"]
    assert "GRPO_RLVR_SKILL" in said["message"] and "unset" in said["fix"] and "Traceback" not in done.stderr


def test_a_skill_folder_that_is_a_link_is_taken(project, tmp_path):
    taken = library(tmp_path / "kept elsewhere", "7.0.1")
    (project / ".claude/skills").mkdir(parents=True)
    (project / ".claude/skills" / NAME).symlink_to(tmp_path / "kept elsewhere")
    done = check(project)
    assert done.returncode == 2 and f"7.0.1 in {taken}\n" in done.stderr


def test_a_recipe_that_is_a_link_into_the_skill_runs_on_the_skill(project):
    (project / "training/train.py").unlink()
    (project / "training/train.py").symlink_to(RECIPE)
    done = check(project)
    assert done.returncode == 2 and "no.yaml" in done.stderr and "library:" not in done.stderr


def test_only_the_first_process_says_it_and_never_on_stdout(project):
    library(project / ".agents/skills" / NAME, "7.0.1")
    assert "library:" not in check(project, RANK="1").stderr
    done = check(project, "--json", RANK="0")
    assert set(json.loads(done.stdout)) == {"error"} and done.stderr.count("library:") == 1


@pytest.mark.model
def test_two_processes_of_accelerate_launch_run_a_copied_recipe(project, untaught_model):
    taken = library(project / ".agents/skills" / NAME, "7.0.1")
    shutil.copytree(untaught_model, project / "model")
    write_rows(project / "train.jsonl", sums(64))
    (project / "rewards.py").write_text(
        "def letters(completions, **columns):\n    return [sum(x.isalpha() for x in c[0]['content']) / 16 for c in completions]\n"
    )
    (project / "config.yaml").write_text(
        "model: {name_or_path: model}\ndata: {train: train.jsonl}\nrewards: [{use: 'rewards.py:letters'}]\nrun: {folder: run}\n"
        "grpo: {use_cpu: true, bf16: false, ddp_backend: gloo, per_device_train_batch_size: 16, num_generations: 8, max_completion_length: 8,\n"
        "       max_steps: 2, save_strategy: 'no'}\n"
    )
    launcher = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no"]
    command = [sys.executable, *launcher, "--dynamo_backend", "no", "training/train.py", "config.yaml", "--without-gate", "a test of a copy"]
    environment = {k: v for k, v in os.environ.items() if k not in ("GRPO_RLVR_SKILL", "PYTHONPATH")} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"library: grpo_rlvr 7.0.1 in {taken}\n") == 1
    assert [json.loads(line)["step"] for line in done.stdout.splitlines()] == [1, 2]
    assert not list(project.rglob(".agents/**/__pycache__"))


def test_a_recipe_beside_the_config_that_is_not_run_is_named(project):
    (project / "config.yaml").write_text("{}")
    own = project / "train.py"
    for content, said in ((RECIPE.read_text(encoding="utf-8"), False), ("print('mine')", True)):
        own.write_text(content, encoding="utf-8")
        command = [sys.executable, str(ROOT / "scripts/train.py"), str(project / "config.yaml"), "--check"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=project)
        assert (f"note: {own} is not run, but the skill's {RECIPE}" in done.stderr) is said, done.stderr
