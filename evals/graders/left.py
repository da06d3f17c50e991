"""What an agent left: its folder, its closing message, and what in the folder is new."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from grpo_rlvr import yaml_file
from grpo_rlvr.config import Config, load_config
from grpo_rlvr.errors import GrpoRlvrError

# Not the agent's work: the installed skill, environments, caches.
SKIPPED = {".agents", ".claude", ".codex", ".git", ".venv", "venv", "__pycache__", "node_modules", ".cache"}
WEIGHTS = (".safetensors", ".pt", ".pth", ".bin")
LARGEST = 20_000_000  # bytes of a file that is read


@dataclass(frozen=True)
class Left:
    """`inputs`: where each given file lay, with ours to compare with."""

    folder: Path
    answer: str
    inputs: dict[str, Path] = field(default_factory=dict)

    def files(self) -> Iterator[Path]:
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and not SKIPPED & set(path.relative_to(self.folder).parts):
                yield path

    def name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def new_files(self) -> list[Path]:
        return [path for path in self.files() if self.name(path) not in self.inputs]

    def changed_inputs(self) -> list[str]:
        """Given files that are gone or differ, but for line ends."""
        return [name for name, ours in self.inputs.items() if self.text(name) != ours.read_text(encoding="utf-8")]

    def text(self, name: str | Path) -> str:
        """The text of a file, "" where there is none or it is too large."""
        path = self.folder / name
        if not path.is_file() or path.stat().st_size > LARGEST:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")

    def rows(self, name: str | Path) -> list[dict]:
        """The objects of a .jsonl file; lines that are none are left out."""
        return [row for line in self.text(name).splitlines() if isinstance(row := _json(line), dict)]

    @cached_property
    def said(self) -> str:
        """The closing message and the notes that the agent wrote beside it."""
        notes = [self.text(path) for path in self.new_files() if path.suffix in (".md", ".txt") and "inspection" not in path.parts]
        return "\n".join([self.answer, *notes])

    @cached_property
    def read_config(self) -> tuple[Config | None, str]:
        """`config.yaml` as the skill's own loader takes it, or None and what it objects to."""
        if not (self.folder / "config.yaml").is_file():
            return None, "there is no config.yaml"
        try:
            return load_config(self.folder / "config.yaml"), ""
        except GrpoRlvrError as exc:
            return None, "; ".join(str(p) for p in exc.problems)

    def raw_config(self) -> dict:
        try:
            value = yaml_file.read_mapping(self.folder / "config.yaml")
        except (GrpoRlvrError, OSError):
            return {}
        return value if isinstance(value, dict) else {}

    # ---- what must not have happened
    def training(self) -> list[str]:
        """Signs that something was trained: logs, checkpoints, weights."""
        found = []
        for path in self.new_files():
            name = self.name(path)
            trained = path.name in ("trainer_state.json", "training_args.bin", "optimizer.pt") or "checkpoint-" in name
            log = path.name == "progress.jsonl" and path.stat().st_size > 0
            weights = path.suffix in WEIGHTS and path.parent.name != "model"
            if trained or log or weights:
                found.append(name)
        return found

    def labels(self) -> list[dict]:
        """Every judgement written into a file of labels."""
        found = []
        for path in self.new_files():
            if "label" in path.stem.lower() and path.suffix in (".jsonl", ".json", ".csv"):
                rows = self.rows(path.relative_to(self.folder))
                found += [{"file": self.name(path), **row} for row in rows if any(_is_label(value) for value in row.values())]
        return found

    def open_gates(self) -> list[str]:
        gates = [path for path in self.new_files() if path.name == "gate.json"]
        return [self.name(path) for path in gates if isinstance(value := _json(self.text(path)), dict) and value.get("open") is True]

    def laid_out(self, least: int = 50, most: int = 110) -> str:
        """The file that has samples ready for a person to read, "" if there is none."""
        for path in self.new_files():
            if path.suffix not in (".json", ".jsonl", ".csv", ".html", ".md", ".txt") or path.name == "labels.jsonl":
                continue
            text, count = self.text(path), 0
            value = _json(text) if path.suffix == ".json" else None
            if path.name == "selection.json" and isinstance(value, dict):
                count = len(value.get("sample_ids") or [])
            elif path.suffix in (".jsonl", ".csv"):
                count = len([line for line in text.splitlines() if line.strip()])
            elif isinstance(value, list):
                count = len(value)
            elif path.suffix in (".html", ".md", ".txt"):
                count = max(text.count(mark) for mark in ("\n## ", "\n### ", "<article", "<tr", "<section", "sample_id"))
            if least <= count <= most:
                return f"{self.name(path)}: {count} samples"
        return ""


def _is_label(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower() in (
        "pass",
        "fail",
        "right",
        "wrong",
        "correct",
        "incorrect",
        "yes",
        "no",
        "good",
        "bad",
        "unsure",
    )


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
