"""The zip: the same bytes everywhere, one top folder, all that the documents name and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import strictyaml
import yaml
from conftest import ROOT

from package.conftest import NAME, make_zip, unzip

# What README.md names and only the repository has.
ONLY_IN_THE_REPOSITORY = {"tests", "benchmarks", "evals"}
FRONTMATTER_KEYS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}


def test_another_folder_umask_language_and_zone_and_no_git_give_the_same_bytes(zip_file, skill, tmp_path):
    other = tmp_path / "ein anderer Ordner ü"
    shutil.copytree(skill, other)
    for path in other.rglob("*"):
        path.chmod(0o700)  # the permissions are those of the archive, not those of the folder
        os.utime(path, (1.7e9, 1.7e9))
    for left in (
        "scripts/__pycache__/train.cpython-311.pyc",
        "scripts/.DS_Store",
        "tests/data/big.jsonl",
        "evals/evals.json",
        ".git-note",
        "runs/a.json",
    ):
        (other / left).parent.mkdir(parents=True, exist_ok=True)
        (other / left).write_bytes(b"left over")
    before = os.umask(0o077)
    try:
        done = make_zip(tmp_path / "other.zip", "--root", str(other), LC_ALL="C", TZ="Asia/Tokyo", PYTHONHASHSEED="7", PYTHONUTF8="0")
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "other.zip").read_bytes() == zip_file.read_bytes()


def test_it_unpacks_to_one_folder_of_the_skills_name(zip_file):
    with zipfile.ZipFile(zip_file) as zipped:
        entries = zipped.infolist()
    names = [e.filename for e in entries]
    assert names == sorted(names) and {n.split("/")[0] for n in names} == {NAME} and f"{NAME}/SKILL.md" in names
    assert [n for n in names if n.lower().endswith("skill.md")] == [f"{NAME}/SKILL.md"]  # no skill inside the skill
    assert {e.compress_type for e in entries} == {zipfile.ZIP_STORED} and {e.date_time for e in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {stat.S_IFMT(e.external_attr >> 16) for e in entries} == {stat.S_IFREG}
    may_run = {e.filename.removeprefix(f"{NAME}/") for e in entries if e.external_attr >> 16 & 0o111}
    assert may_run == {*(p.relative_to(ROOT).as_posix() for p in (ROOT / "scripts").glob("*.py")), "templates/train.py", "templates/slurm.sbatch"}
    assert all(e.filename.isascii() and "\\" not in e.filename for e in entries)


def test_nothing_that_is_not_for_users_is_in_it(skill):
    inside = {p.relative_to(skill).parts[0] for p in skill.rglob("*")}
    assert inside & {"tests", "benchmarks", "evals", "tools", "Makefile", ".ci", ".git", ".github", "runs", "build", "dist"} == set()
    assert [p for p in skill.rglob("*") if p.name == "__pycache__" or p.suffix == ".pyc" or p.is_symlink()] == []


def test_all_of_the_rooms_is_in_it(skill):
    """What a document, a config or the code may ask for: each tracked file of these folders."""
    tracked = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True).stdout.split("\0")
    rooms = ("scripts/", "templates/", "references/", "examples/", "agents/", ".claude-plugin/")
    wanted = {n for n in tracked if n.startswith(rooms)} | {n for n in tracked if n in ("LICENSE", "ATTRIBUTION.md")}
    assert len(wanted) > 250
    assert sorted(n for n in wanted if not (skill / n).is_file()) == []


@pytest.mark.parametrize("document", ["SKILL.md", "README.md", *sorted(f"references/{p.name}" for p in (ROOT / "references").glob("*.md"))])
def test_each_path_that_a_document_names_is_in_it(document, skill):
    text = (skill / document).read_text(encoding="utf-8")
    rooms = sorted(p.name for p in ROOT.iterdir() if p.is_dir() and p.name != "tools" and not p.name.startswith("."))
    named = set(
        re.findall(rf"(?<![\w./<-])(?:SKILL/)?((?:{'|'.join(map(re.escape, rooms))})/[\w./-]*\w|[A-Z]+\.md|constraints\.txt|pyproject\.toml)", text)
    )
    assert document != "SKILL.md" or len(named) > 15
    missing = {
        n for n in named - {"scripts/NAME.py"} if not (skill / n).exists() and n.split("/")[0] not in ONLY_IN_THE_REPOSITORY | {"runs", "dist"}
    }
    assert missing == set()
    if document == "SKILL.md":
        assert {n.split("/")[0] for n in named} & ONLY_IN_THE_REPOSITORY == set()


def test_the_specification_and_two_parsers_of_yaml_accept_it(skill):
    validator = Path(sys.executable).with_name("agentskills")
    command = [str(validator)] if validator.exists() else [sys.executable, "-m", "skills_ref.cli"]
    done = subprocess.run([*command, "validate", str(skill)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (skill / "SKILL.md").read_text(encoding="utf-8")
    head = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)[1]
    read = yaml.safe_load(head)
    assert read == strictyaml.load(head).data
    assert set(read) <= FRONTMATTER_KEYS and read["name"] == skill.name == NAME
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", NAME) and len(NAME) <= 64
    assert 0 < len(read["description"]) <= 1024 and not re.search("[<>]", read["description"]) and len(read["compatibility"]) <= 500
    assert all(isinstance(v, str) for v in (*read["metadata"].values(), *(read[k] for k in read if k != "metadata")))


def test_no_file_in_it_names_a_place_on_a_machine(skill):
    place = re.compile(rb"(?:/(?:home|Users|root|work)/[a-z])|(?:\b[A-Z]:\\\\?(?:Users|[a-z]{3}))")
    found = [p.name for p in skill.rglob("*") if p.is_file() and place.search(p.read_bytes())]
    assert found == []


def test_where_git_does_not_keep_the_ends_of_lines_it_is_told_to():
    command = [
        "git",
        "-C",
        str(ROOT),
        "check-attr",
        "eol",
        "--",
        "SKILL.md",
        "scripts/train.py",
        "templates/config.yaml",
        "examples/code/tasks.jsonl",
    ]
    said = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    assert [line.rsplit(": ", 1)[1] for line in said] == ["lf"] * 4


def test_all_that_stands_against_it_is_said_and_nothing_is_written(zip_file, tmp_path):
    root = unzip(zip_file, tmp_path)
    (root / "LICENSE").unlink()
    shutil.rmtree(root / "references")
    (root / "templates/config.yaml").write_bytes(b"model: {}\r\n")
    (root / "templates/link.py").symlink_to("train.py")
    (root / "scripts/Train.py").write_text("")
    (root / "scripts/grpo_rlvr/Memory").mkdir()
    (root / "scripts/grpo_rlvr/Memory/new.py").write_text("")
    (root / "examples/aux.txt").write_text("")
    (root / "examples/a:b.txt").write_text("")
    (root / "examples/ü.txt").write_text("")
    (root / ("examples/" + "x" * 120)).write_text("")
    done = make_zip(tmp_path / "dist" / "no.zip", "--root", str(root))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    for part in (
        "LICENSE: it is not there", "references/: it is not there", "config.yaml: lines that end in CR LF", "link.py: a symbolic link",
        "scripts/Train.py: the same", "scripts/train.py: the same", "scripts/grpo_rlvr/Memory: the same", "aux.txt: not ASCII, or a name",
        "a:b.txt: not ASCII", "ü.txt: not ASCII", "at most 120",
    ):  # fmt: skip
        assert part in done.stderr, part
    assert not (tmp_path / "dist").exists()


def test_in_a_clone_only_what_git_tracks_goes_in(zip_file, tmp_path):
    root = unzip(zip_file, tmp_path)
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run([*git, *command], check=True)
    (root / "scripts/notes.py").write_text("not tracked")
    assert make_zip(tmp_path / "clone.zip", "--root", str(root)).returncode == 0
    assert (tmp_path / "clone.zip").read_bytes() == zip_file.read_bytes()
    (root / "scripts/train.py").unlink()
    done = make_zip(tmp_path / "clone.zip", "--root", str(root))
    assert done.returncode == 1 and "scripts/train.py: git has it, the folder has not" in done.stderr
