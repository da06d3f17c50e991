"""Someone unzips the skill into an empty project, makes the environment that SKILL.md names, and goes through its steps from another folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from package.conftest import NAME, state, unzip

pytestmark = pytest.mark.model

STEPS = 12


class Room:
    """A project with the skill in it, a Python that has the skill and its packages, and a folder to stand in."""

    def __init__(self, root: Path, archive: Path):
        self.project = root / "mein Projekt ü €"
        self.skill = unzip(archive, self.project / ".agents/skills")
        self.elsewhere = root / "another folder"
        self.home = root / "home"
        for folder in (self.elsewhere, self.home):
            folder.mkdir()
        self.python = self._environment(root / "venv")
        self.before = state(self.skill)
        for path in self.skill.rglob("*"):  # does not bind root, for whom only the hashes tell
            path.chmod(path.stat().st_mode & ~0o222)
        self.read_only = state(self.skill)

    def _environment(self, folder: Path) -> Path:
        """A new environment that sees the packages of this one: torch is not installed twice. Only the skill itself is."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        (site,) = (folder / "lib").glob("python*/site-packages") if os.name == "posix" else [folder / "Lib/site-packages"]
        others = [p for p in sys.path if "site-packages" in p]
        (site / "base.pth").write_text("".join(f"import site; site.addsitedir({p!r})\n" for p in others), encoding="utf-8")
        return folder / ("bin/python" if os.name == "posix" else "Scripts/python.exe")

    def version(self) -> str:
        return re.search(r'^  version: "(.+)"$', (self.skill / "SKILL.md").read_text(encoding="utf-8"), re.MULTILINE)[1]

    def environment(self) -> dict[str, str]:
        known = {k: v for k, v in os.environ.items() if not k.startswith(("GRPO_", "PYTHON", "COV"))}
        return {**known, "HOME": str(self.home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}

    def pip(self, *words: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.elsewhere, env=self.environment())

    def start(self, script: str, *words: str) -> subprocess.Popen:
        pipe = subprocess.PIPE
        command = [str(self.python), str(self.skill / script if not script.startswith("/") else script), *words]
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=self.elsewhere, env=self.environment())

    def run(self, code: int, script: str, *words: str) -> dict:
        """One command with --json; its exit code must be `code`, its stdout one object."""
        process = self.start(script, *words, "--json")
        out, said = process.communicate(timeout=600)
        assert process.returncode == code, f"{script} {words}: exit {process.returncode}\n{out[-2000:]}\n{said[-4000:]}"
        assert "Traceback" not in said
        return {**json.loads(out), "said": said}


@pytest.fixture(scope="module")
def room(zip_file, tmp_path_factory):
    room = Room(tmp_path_factory.mktemp("clean room"), zip_file)
    yield room
    for path in room.skill.rglob("*"):
        path.chmod(path.stat().st_mode | 0o200)


def test_the_documented_command_installs_and_leaves_the_folder_as_it_was(room):
    said = (room.skill / "SKILL.md").read_text(encoding="utf-8")
    assert "pip install -c SKILL/constraints.txt SKILL'[train]'" in said
    skill = f"{room.skill}[train]"
    # All packages resolve to the tested set, which is there: nothing but the skill would be installed.
    done = room.pip("--dry-run", "--no-build-isolation", "--constraint", str(room.skill / "constraints.txt"), skill)
    assert done.returncode == 0, done.stderr
    (installed,) = re.findall(r"^Would install (.*)$", done.stdout, re.MULTILINE)
    assert installed == f"{NAME}-{room.version()}"
    done = room.pip("--no-deps", "--no-build-isolation", skill)
    assert done.returncode == 0, done.stderr
    assert state(room.skill) == room.read_only


def test_where_the_project_ignores_the_skill_all_of_the_library_is_installed(room, tmp_path):
    """Build tools read .gitignore; projects ignore .agents/, build/, *.json and the like."""
    (room.project / ".gitignore").write_text(".agents/\nscripts/\n*.json\n*.html\n")
    subprocess.run(["git", "init", "-q", str(room.project)], check=True)
    done = room.pip("--no-deps", "--no-build-isolation", "--target", str(tmp_path / "site"), str(room.skill))
    assert done.returncode == 0, done.stderr
    library = {p.relative_to(room.skill / "scripts").as_posix() for p in (room.skill / "scripts/grpo_rlvr").rglob("*") if p.is_file()}
    assert sorted(name for name in library if not (tmp_path / "site" / name).is_file()) == []
    shutil.rmtree(room.project / ".git")


def test_all_steps_of_the_document(room):
    project, config = room.project, room.project / "config.yaml"
    # 0. See it work. Few steps: that it learns is tested elsewhere; here the model that it makes is needed.
    shown = room.run(1, "scripts/quickstart.py", "--steps", "2", "--folder", str(room.home / "seen"))
    assert shown["gate"]["open"] and shown["training"]["steps"] == 2
    demo = room.home / "seen"

    # 1. Set up the project; mistakes come back all at once; it is done when only the gate is missing.
    for name in ("config.yaml", "config.schema.json"):
        shutil.copy(room.skill / "templates" / name, project)
        (project / name).chmod(0o644)
    mistaken = room.run(2, "scripts/train.py", str(config), "--check")
    assert "data/train.jsonl" in mistaken["error"]["message"]
    shutil.copytree(demo / "model", project / "model")
    shutil.copytree(demo / "data", project / "data")
    config.write_text(edited(config.read_text(encoding="utf-8")), encoding="utf-8")
    checked = room.run(1, "scripts/train.py", str(config), "--check")
    assert "gate" in checked["error"]["message"] if "error" in checked else not checked["gate"]["open"]

    # 2. Inspect.
    inspected = room.run(0, "scripts/inspect_rewards.py", "run", str(config))
    assert inspected["go"] and inspected["signal"]["verdict"] == "go"

    # 3. A person reads a static page; its labels are a file.
    page = project / "review.html"
    room.run(0, "scripts/inspect_rewards.py", "review", str(config), "--static", str(page), "--reviewer", "ada")
    assert page.read_text(encoding="utf-8").count("sample_id") > 0
    shut = room.run(1, "scripts/inspect_rewards.py", "gate", str(config))
    assert not shut["open"]
    label(project / "runs/grpo/inspection", project / "downloaded.jsonl")

    # 4. Gate.
    opened = room.run(0, "scripts/inspect_rewards.py", "gate", str(config), "--labels", str(project / "downloaded.jsonl"))
    assert opened["open"] and opened["imported"]["added"] >= 50

    # 5. Will it fit; can this machine; one worst-case step.
    plan = room.run(0, "scripts/memory_plan.py", str(config), "--gpu", "h100-80gb")
    assert plan["fits"] and plan["verdict"] == "FITS"
    here = room.run(0, "scripts/check_environment.py", str(config), "--no-hub")
    assert here["verdict"].startswith("ready") and (project / "runs/grpo/env-report.json").is_file()
    dry = room.run(0, "scripts/train.py", str(config), "--dry-step")
    assert "plan" in json.dumps(dry)

    # 6. Train with a copy of the recipe; a signal; the same command with --resume.
    shutil.copy(room.skill / "templates/train.py", project)
    recipe = str(project / "train.py")
    room.run(0, recipe, str(config), "--check")
    process = room.start(recipe, str(config))
    progress = project / "runs/grpo/train/logs/progress.jsonl"
    until = time.monotonic() + 300
    while not (progress.exists() and progress.read_text().count("\n") >= 2) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 143, said
    assert f"library: grpo_rlvr {room.version()} in {room.skill / 'scripts'}\n" in said
    result = room.run(0, recipe, str(config), "--resume")
    assert result["steps"] == STEPS
    assert [json.loads(line)["step"] for line in progress.read_text().splitlines()] == list(range(1, STEPS + 1))
    written = json.loads((project / "runs/grpo/train/result.json").read_text())
    low, high = written["held_out"]["ci95"]
    assert written["held_out"]["prompts"] == 16 and low <= written["held_out"]["difference"] <= high

    # 7. Report.
    process = room.start("scripts/diagnose.py", str(project / "runs/grpo"), "--report", "--json")
    out, said = process.communicate(timeout=120)
    assert process.returncode in (0, 1), said  # twelve steps may well have a symptom
    assert json.loads(out)["schema"].startswith("grpo-rlvr/diagnosis/") and (project / "runs/grpo/report.html").stat().st_size > 10_000

    # Nothing of all that is in the skill's folder, nor where one stood.
    assert state(room.skill) == room.read_only
    assert {k: v.split()[-1] for k, v in state(room.skill).items()} == {k: v.split()[-1] for k, v in room.before.items()}
    assert list(room.elsewhere.iterdir()) == []


def edited(template: str) -> str:
    """The template with the user's model, data and sizes; each line that is changed must be there."""
    changes = {
        r"name_or_path: \S+": "name_or_path: model",
        r"  # eval: .*": "  eval: data/eval.jsonl",
        r"  # eval_limit: .*": "  eval_limit: 16",
        r"  system_prompt: >-\n.*\n": "",
        r"  - use: math .*": "  - use: exact",
        r"weight: 0\.2": "weight: 0.0",
        r"per_device_train_batch_size: 8 .*": "per_device_train_batch_size: 32",
        r"gradient_accumulation_steps: 4 .*": "gradient_accumulation_steps: 1",
        r"max_completion_length: 512 .*": "max_completion_length: 48",
        r"learning_rate: 1\.0e-6": "learning_rate: 1.0e-4",
        r"num_train_epochs: 1": f"max_steps: {STEPS}",
        r"bf16: true .*": "bf16: false\n  use_cpu: true",
        r"save_steps: 50": "save_steps: 4",
    }
    for pattern, new in changes.items():
        template, count = re.subn(pattern, new, template, count=1)
        assert count == 1, pattern
    return template


def label(inspection: Path, out: Path) -> None:
    """What the static page of a careful reader downloads: its samples judged by an oracle that shares no code with the rewards."""
    from grpo_rlvr.demo.sums import oracle
    from grpo_rlvr.inspection.select import load_selection

    rows = []
    for sample in load_selection(inspection):
        text = sample["completion"] if isinstance(sample["completion"], str) else sample["completion"][-1]["content"]
        said = "pass" if oracle(text, sample["columns"]["answer"]) else "fail"
        rows.append({
            "schema": "grpo-rlvr/label/1", "sample_id": sample["sample_id"], "label": said, "reviewer": "ada", "reviewer_kind": "human",
            "at": "2026-01-01T10:00:00+00:00", "note": "",
        })  # fmt: skip
    out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
