"""The zip, made once, and the skill as someone has unzipped it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

NAME = "grpo-rlvr-training"


def make_zip(out: Path, *flags: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "tools" / "make_zip.py"), "--out", str(out), *flags]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def state(folder: Path) -> dict[str, str]:
    """What a folder holds: each file's hash and permissions, each folder's name."""
    return {
        p.relative_to(folder).as_posix(): f"{p.stat().st_mode:o} {hashlib.sha256(p.read_bytes()).hexdigest()}" if p.is_file() else "folder"
        for p in sorted(folder.rglob("*"))
    }


def unzip(archive: Path, into: Path) -> Path:
    """As `unzip` does, permissions too; returns the skill's folder."""
    into.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as zipped:
        zipped.extractall(into)
        for entry in zipped.infolist():
            (into / entry.filename).chmod(entry.external_attr >> 16 & 0o777)
    return into / NAME


@pytest.fixture(scope="session")
def zip_file(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("zip") / f"{NAME}.zip"
    done = make_zip(out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def skill(zip_file, tmp_path_factory) -> Path:
    """The unzipped skill, to be read only."""
    return unzip(zip_file, tmp_path_factory.mktemp("unzipped"))
