"""Which library a copied recipe runs on, where there may be several."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
from collections.abc import Iterable
from pathlib import Path

from grpo_rlvr.cli import say
from grpo_rlvr.version import __version__

LIBRARY = Path(__file__).resolve().parents[1]


def say_which(others: Iterable[Path] = ()) -> None:
    """Tell people, once a run, the version and the folder of this library, and which of another version are left aside.

    Args:
        others: folders that hold a library too and came later in the search.
    """
    if os.environ.get("RANK", "0") != "0":
        return
    say(f"library: grpo_rlvr {__version__} in {LIBRARY}")
    found = {place.resolve(): version_in(place / "grpo_rlvr") for place in others if place.resolve() != LIBRARY}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["the installed packages"] = importlib.metadata.version("grpo-rlvr-training")
    for place, version in found.items():
        if version != __version__:
            say(f"  not used: {version} in {place}")


def version_in(library: Path) -> str:
    """The version that a library's files state, without importing it."""
    for name in ("version.py", "__init__.py"):
        try:
            stated = re.search(r'^__version__ = "([\w.+-]{1,40})"', (library / name).read_text(encoding="utf-8"), re.MULTILINE)
        except OSError:
            continue
        if stated:
            return stated[1]
    return "an unknown version"
