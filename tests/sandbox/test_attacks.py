"""Every program of the attack corpus gets the score it must get: as root, as an ordinary user, and without the server."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from grpo_rlvr.sandbox.backends import find_bubblewrap

from sandbox.judge_corpus import FOLDERS, corpus

ORDINARY = 1000
# One of each family and folder, for the way that is only a fall-back.
FAMILIES = {(folder, file["family"]): f"{folder}/{name}" for folder in FOLDERS for name, file in corpus(folder)["files"].items()}


def judged(*arguments: str) -> dict[str, list]:
    command = [sys.executable, str(Path(__file__).with_name("judge_corpus.py")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "SECRET_OF_THE_TRAINER": "planted-7d1f0c"})
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout)
    assert answer["uid"] == (int(arguments[1]) if "--user" in arguments else os.getuid())
    return answer["results"]


def wrong(results: dict[str, list]) -> dict[str, list]:
    """Programs with another score than they must get: equal to the number, or below 1 where none is set."""
    return {name: pair for name, pair in results.items() if pair[0] is None or (pair[0] >= 1 if pair[1] is None else pair[0] != pair[1])}


def reachable(path: str) -> bool:
    return all(os.stat(part).st_mode & stat.S_IXOTH for part in [*Path(path).resolve().parents, Path(path)])


def test_the_corpus_as_this_user(backend):
    results = judged()
    assert len(results) > 250 and wrong(results) == {}
    assert not Path("/tmp/attack_ran").exists() and not Path("/dev/shm/attack_ran").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="this is an ordinary user")
def test_the_corpus_as_an_ordinary_user(backend):
    if not (reachable(find_bubblewrap()) and reachable(str(ROOT / "scripts"))):
        if os.environ.get("GRPO_RLVR_TEST_SANDBOX") == "required":
            pytest.fail("an ordinary user cannot reach bubblewrap or this folder")
        pytest.skip("an ordinary user cannot reach bubblewrap or this folder")
    results = judged("--user", str(ORDINARY))
    assert len(results) > 250 and wrong(results) == {}


def test_asserts_without_an_object_around_them_are_no_weaker(backend):
    results = judged("--bare")
    assert len(results) > 30 and wrong(results) == {}


def test_one_of_each_family_in_a_sandbox_of_its_own(backend):
    results = judged("--fresh", "--only", ",".join(FAMILIES.values()))
    assert len(results) == len(FAMILIES) and wrong(results) == {}
