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


def say_recipe(config: str, recipe: Path) -> None:
    """Tell people that a recipe of their own beside the config is not the one that runs.

    Args:
        recipe: the one that runs, the skill's own.
    """
    own = Path(config).expanduser().resolve().parent / "train.py"
    with contextlib.suppress(OSError):
        if os.environ.get("RANK", "0") == "0" and own != recipe and own.is_file() and own.read_bytes() != recipe.read_bytes():
            say(f"note: {own} is not run, but the skill's {recipe}; to run yours, call that file")


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
