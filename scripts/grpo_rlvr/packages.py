"""Packages that are looked for before anything is begun, so that a missing one costs nothing."""

from __future__ import annotations

import importlib.util

from grpo_rlvr.errors import MissingError, Problem

LIGHT = {"yaml": "pyyaml", "rich": "rich", "jsonschema": "jsonschema", "math_verify": "math-verify"}
TRAINING = {"torch": "torch", "transformers": "transformers", "trl": "trl", "datasets": "datasets", "accelerate": "accelerate"}


def need(packages: dict[str, str], purpose: str) -> None:
    """Raise a MissingError with the command that installs them if any of the packages (import name -> name on the index) is absent."""
    absent = [name for module, name in packages.items() if importlib.util.find_spec(module) is None]
    if absent:
        fix = f"run: pip install -c SKILL/constraints.txt {' '.join(absent)}   (SKILL: the folder of SKILL.md)"
        raise MissingError("missing", Problem(purpose, f"not installed: {', '.join(absent)}", fix))
