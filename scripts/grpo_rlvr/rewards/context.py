"""What a reward of a config may need to know of the run it is built for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Context:
    """`base` is the config's folder, `policy` the model in training, `max_completion_length` the trainer's limit in tokens (None: not known)."""

    base: Path = Path(".")
    policy: str | None = None
    max_completion_length: int | None = None

    def resolve(self, name: str) -> Path:
        """`name` as a path, relative to the config's folder."""
        return self.base / Path(name).expanduser()
