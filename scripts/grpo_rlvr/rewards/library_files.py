"""The files of this package that decide what its own rewards score; the gate keeps their hashes."""

from __future__ import annotations

from pathlib import Path


def builtin_source_files() -> tuple[Path, ...]:
    """All modules of `rewards` and `sandbox`, those in their folders too, and what finds answers, calls and code in text."""
    rewards = Path(__file__).resolve().parent
    package = rewards.parent
    finders = (package / name for name in ("completions.py", "tool_call_text.py", "code_blocks.py"))
    return tuple(sorted([*rewards.rglob("*.py"), *(package / "sandbox").rglob("*.py"), *finders]))
