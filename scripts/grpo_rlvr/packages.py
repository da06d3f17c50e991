"""Packages that are looked for before anything is begun, so that a missing or an unknown one costs nothing."""

from __future__ import annotations

import importlib.util

from grpo_rlvr.errors import MissingError, Problem

LIGHT = {"yaml": "pyyaml", "rich": "rich", "jsonschema": "jsonschema", "math_verify": "math-verify"}
TRAINING = {"torch": "torch", "transformers": "transformers", "trl": "trl", "datasets": "datasets", "accelerate": "accelerate"}
# Another release of these changes what training computes; the others' ranges are only recommended.
DECIDING = ("torch", "transformers", "trl")


def need(packages: dict[str, str], purpose: str) -> None:
    """Check that the packages (import name -> name on the index) are here, and the `DECIDING` ones in a release that this is made for.

    Raises:
        MissingError: naming all that are absent or of another release, with the command that installs them.
    """
    absent = [name for module, name in packages.items() if importlib.util.find_spec(module) is None]
    found = f"not installed: {', '.join(absent)}" if absent else ""
    wanted = list(absent)
    for name, version, spec in _of_another_release([name for name in packages.values() if name in DECIDING and name not in absent]):
        found += f"{'; ' if found else ''}{name} {version} is installed, and this works with {spec}"
        wanted.append(f"'{name}{spec}'")
    if found:
        fix = f"run: pip install -c SKILL/constraints.txt {' '.join(wanted)}   (SKILL: the folder of SKILL.md)"
        raise MissingError("missing", Problem(purpose, found, fix))


def _of_another_release(names: list[str]) -> list[tuple[str, str, str]]:
    """(package, its version, the range of versions that this is made for) where the one is not in the other."""
    if not names:
        return []
    from grpo_rlvr.environment.versions import allows, installed, own_ranges

    ranges = own_ranges()
    here = [(name, installed(name), ranges[name]) for name in names if name in ranges]
    return [(name, version, spec) for name, version, spec in here if version and not allows(spec, version)]
