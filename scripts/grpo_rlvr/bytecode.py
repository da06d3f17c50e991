"""Keeps `__pycache__` out of the skill's folder.

The folder is often committed into a project, hashed by a skill manager, or read-only; using it must leave it as it was unpacked. Python's own switch
(`sys.dont_write_bytecode`) would also keep torch and transformers from being compiled once, where the installer has not done it (uv does not), and
each start would take many seconds longer. So a script sets that switch only until the first thing it calls, `cli.parser`, has come here.
"""

from __future__ import annotations

import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

LIBRARY = Path(__file__).resolve().parent


class Unwritten(SourceFileLoader):
    """Compiles a module of this library each time it is loaded: 1 ms for 100 lines."""

    def set_data(self, path, data, *, _mode=0o666) -> None:
        """Python's loader would write the bytecode here."""


def leave_none_here() -> None:
    """From now on this library's modules leave no bytecode, and all others may again; nothing is done where the switch was not set by a script."""
    if not sys.dont_write_bytecode or sys.flags.dont_write_bytecode:
        return
    if _finder not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder)
    for folder in [f for f in sys.path_importer_cache if _ours(f)]:
        del sys.path_importer_cache[folder]
    sys.dont_write_bytecode = False


def _finder(folder: str) -> FileFinder:
    if not _ours(folder):
        raise ImportError("not this library's")
    return FileFinder(folder, (Unwritten, SOURCE_SUFFIXES))


def _ours(folder: str) -> bool:
    return LIBRARY in (path := Path(folder).resolve(), *path.parents)
