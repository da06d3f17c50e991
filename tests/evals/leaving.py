"""What makers of answers do to a prepared folder: run the skill's scripts, change its config, read rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml
from conftest import ROOT


def script(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "scripts" / name), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def change(folder: Path, **sections: dict) -> None:
    """Sections of config.yaml with some keys replaced."""
    path = folder / "config.yaml"
    config = yaml.safe_load(path.read_text()) if path.exists() else {}
    for name, new in sections.items():
        config[name] = {**config.get(name, {}), **new} if isinstance(new, dict) else new
    path.write_text(yaml.safe_dump(config))


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]
