"""The attack corpus as files: each program has an expectation, and is the kind of program that it says. None is run here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ATTACKS = Path(__file__).parent / "attacks"
FOLDERS = [ATTACKS, ATTACKS / "io", ATTACKS / "asserts"]
NO_PROGRAMS = {"193_syntax_error.py", "194_null_byte.py"}
GOALS = {"marks", "harm", "leak", "none"}


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request) -> Path:
    return request.param


def expectations(folder: Path) -> dict:
    return json.loads((folder / "expect.json").read_text(encoding="utf-8"))


def test_each_program_has_an_expectation_and_a_header(folder):
    expected = expectations(folder)
    assert set(expected["files"]) == {path.name for path in folder.glob("*.py")}
    assert {entry["tests"] for entry in expected["files"].values()} == set(expected["tests"])
    for name, entry in expected["files"].items():
        assert set(entry) <= {"tests", "score", "family", "goal", "timeout", "twice"}
        assert entry["score"] in (0.0, 1.0, None) and entry["goal"] in GOALS
        assert (entry["family"] in ("honest", "limit")) == (entry["score"] == 1.0)
        first, second = (folder / name).read_bytes().splitlines()[:2]
        assert first.decode() == f"# family: {entry['family']}; goal: {entry['goal']}" and second.startswith(b"# ")


def test_programs_compile(folder):
    broken = set()
    for path in folder.glob("*.py"):
        try:
            compile(path.read_bytes(), str(path), "exec")
        except (SyntaxError, ValueError):
            broken.add(path.name)
    assert broken == (NO_PROGRAMS if folder == ATTACKS else set())


def test_bytes_that_editors_change_are_still_there():
    for path in [*ATTACKS.rglob("*_crlf.py")]:
        data = path.read_bytes()
        assert data.count(b"\r\n") == data.count(b"\n") > 5
    assert b"\0" in (ATTACKS / "194_null_byte.py").read_bytes() and not (ATTACKS / "321_honest_tabs.py").read_bytes().endswith(b"\n")


def test_there_are_many_of_both_sorts():
    scores = [entry["score"] for folder in FOLDERS for entry in expectations(folder)["files"].values()]
    assert scores.count(1.0) >= 35 and len(scores) - scores.count(1.0) >= 80
