"""`env-report.json`: what a machine has and how a worst-case step went on it. Its two writers keep each other's part."""

from __future__ import annotations

import contextlib
import datetime
import json
from pathlib import Path
from typing import Any

from grpo_rlvr.cli import write_json

NAME, WHAT, VERSION = "env-report.json", "env-report", 1
PARTS = ("environment", "dry_step")


def write_part(path: Path, part: str, data: dict[str, Any]) -> None:
    """Put `data`, with the time, under `part` of the report at `path`; the other part stays. A report that cannot be read is replaced.

    The environment's verdict and platform stand at the top too, where others look for them.
    """
    before: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        before = {k: v for k, v in found.items() if k in PARTS} if isinstance(found, dict) else {}
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    parts = {**before, part: {"at": at, **data}}
    environment = parts.get("environment")
    top = {k: environment[k] for k in ("verdict", "platform") if k in environment} if isinstance(environment, dict) else {}
    write_json(path, WHAT, VERSION, {**top, **parts})
