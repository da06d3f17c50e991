"""Which packages are here, whether they are those that this was tested with, and whether they fit together by their own requirements."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from grpo_rlvr.environment.check import BLOCKED, OK, WARNING, Check
from grpo_rlvr.packages import DECIDING

ROOT = Path(__file__).resolve().parents[3]
OWN = "grpo-rlvr-training"
LIGHT, TRAINING = ("pyyaml", "jsonschema", "rich", "math-verify"), ("torch", "transformers", "trl", "datasets", "accelerate")
OPTIONAL = ("peft", "vllm", "bitsandbytes", "liger-kernel", "deepspeed", "flash-attn")
LOOKED_AT = ("trl", "vllm", "transformers", "accelerate", "peft", "datasets")
_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)\)?\s*(?:;(.*))?$")
_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|<|>)\s*([\w.+!*-]+)")


def installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def number(version: str) -> tuple[int, ...]:
    """The release part of a version: 2.13.0+cpu -> (2, 13, 0); an early release counts as the release."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in match[1].split(".")) if match else (0,)


def allows(specifier: str, version: str) -> bool:
    """Whether a version is within a specifier such as `>=5.10,<5.18`."""
    return all(_holds(op, bound, version) for op, bound in _CLAUSE.findall(specifier))


def _holds(op: str, bound: str, version: str) -> bool:
    have, star = number(version), bound.endswith(".*")
    want = number(bound)
    size = max(len(have), len(want))
    a, b = have + (0,) * (size - len(have)), want + (0,) * (size - len(want))
    if op in ("==", "!="):
        same = have[: len(want)] == want if star else a == b
        return same if op == "==" else not same
    if op == "~=":
        return a >= b and have[: len(want) - 1] == want[:-1]
    return {">=": a >= b, "<=": a <= b, "<": a < b, ">": a > b}[op]


def requirements(name: str, extra: str | None = None) -> Iterator[tuple[str, str]]:
    """(package, specifier) that an installed package asks for: always, or with one of its extras."""
    try:
        lines = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for line in lines:
        match = _REQUIREMENT.match(line)
        marker = match[3] if match else None
        wanted = re.search(r"extra\s*==\s*['\"]([\w.-]+)['\"]", marker or "")
        # Other markers are about platforms; those lines would need more than this reads.
        if match and match[2].strip() and (wanted[1] == extra if wanted else extra is None and not marker):
            yield match[1].lower().replace("_", "-"), match[2].strip()


def own_ranges() -> dict[str, str]:
    """What this package is tested for: package -> specifier, of pyproject.toml beside SKILL.md, else of the installed metadata."""
    ranges: dict[str, str] = {}
    path = ROOT / "pyproject.toml"
    if path.is_file():
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        lines = [*project["dependencies"], *(line for extra in ("train", "vllm") for line in project["optional-dependencies"][extra])]
        for line in lines:
            match = _REQUIREMENT.match(line)
            ranges[match[1].lower()] = match[2].strip()
        return ranges
    return {name: spec for extra in (None, "train", "vllm") for name, spec in requirements(OWN, extra)}


def tested_versions() -> dict[str, str]:
    """The exact set of constraints.txt; empty where it does not lie beside SKILL.md."""
    path = ROOT / "constraints.txt"
    if not path.is_file():
        return {}
    pairs = (line.split("==") for line in path.read_text(encoding="utf-8").splitlines() if "==" in line and not line.startswith("#"))
    return {name.strip().lower().replace("_", "-"): version.strip() for name, version in pairs}


def package_checks() -> list[Check]:
    """What is missing, out of range, or refused by another package. Optional packages are missing only where a config asks for them."""
    ranges, tested = own_ranges(), tested_versions()
    found = {name: version for name in (*LIGHT, *TRAINING, *OPTIONAL) if (version := installed(name))}
    missing = [name for name in (*LIGHT, *TRAINING) if name not in found]
    shown = ", ".join(f"{name} {found[name]}" for name in (*TRAINING, *OPTIONAL) if name in found) or "none of training's packages"
    checks = [Check("packages", OK, shown, data={"versions": found, "tested": {k: v for k, v in tested.items() if k in found}})]
    if missing:
        fix = "python -m pip install -c SKILL/constraints.txt 'SKILL[train]'   (SKILL: the folder of SKILL.md)"
        checks = [Check("packages", BLOCKED, f"missing: {', '.join(missing)}; here: {shown}", fix, checks[0].data)]
    for name, spec in ranges.items():
        if name in found and not allows(spec, found[name]):
            advice = f"python -m pip install '{name}{spec}'" + (f" (tested: {tested[name]})" if name in tested else "")
            status = BLOCKED if name in DECIDING else WARNING
            checks.append(Check(f"version-{name}", status, f"{name} {found[name]} is outside {spec}, for which this is made", advice))
    return checks + conflicts(found)


def conflicts(found: dict[str, str]) -> list[Check]:
    """Requirements of the installed packages that the other installed ones do not meet, and TRL's range of vLLM."""
    checks = []
    for owner in LOOKED_AT:
        if owner not in found:
            continue
        for name, spec in [*requirements(owner), *(requirements(owner, "vllm") if owner == "trl" else ())]:
            version = found.get(name) or installed(name)
            if version and not allows(spec, version) and (name in found or owner == "vllm"):
                status = BLOCKED if owner != "trl" and {owner, name} <= {*TRAINING, "vllm"} else WARNING
                fix = f"python -m pip install -c SKILL/constraints.txt {owner} {name}   (the set that was tested together)"
                checks.append(Check(f"{owner}-{name}", status, f"{owner} {found[owner]} asks for {name} {spec}; {version} is here", fix))
    return checks
