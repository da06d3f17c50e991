"""Python, memory, disk, driver and GPUs: asked of the system and of nvidia-smi, and of torch in a process of its own."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_rlvr.environment.check import BLOCKED, OK, WARNING, Check

GIB = 2**30
LEAST_RAM_GIB, LEAST_DISK_GB = 8, 20
SMI_S, TORCH_S = 15, 120
FIELDS = ("name", "memory.total", "memory.used", "driver_version", "compute_cap")
ASK_TORCH = """
import json, torch
on = torch.cuda.is_available()
gpus = [{"name": torch.cuda.get_device_name(i), "total_gib": round(torch.cuda.get_device_properties(i).total_memory / 2**30, 2),
         "capability": list(torch.cuda.get_device_capability(i))} for i in range(torch.cuda.device_count())] if on else []
print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip, "available": on, "gpus": gpus,
                  "other": None if on or not torch.accelerator.is_available() else torch.accelerator.current_accelerator().type}))
"""


@dataclass(frozen=True)
class Card:
    """One GPU as the driver or torch sees it. None where it is not told."""

    name: str
    total_gib: float | None
    used_gib: float | None = None
    driver: str = ""
    capability: float | None = None


def python_check() -> Check:
    version = platform.python_version()
    return Check("python", OK, f"Python {version}, {platform.system()} {platform.machine()}", data={"version": version, "executable": sys.executable})


def memory_check() -> Check:
    total, free = ram_gib()
    if total is None:
        return Check("memory", WARNING, "how much memory there is cannot be read", "look for yourself: weights pass through it when they are loaded")
    found, data = f"{total:.1f} GiB, {free:.1f} free, {os.cpu_count()} processors", {"total_gib": round(total, 1), "free_gib": round(free, 1)}
    if total < LEAST_RAM_GIB:
        return Check("memory", WARNING, found, "a model's weights pass through memory when they are loaded; close what is not needed", data)
    return Check("memory", OK, found, data=data)


def ram_gib() -> tuple[float | None, float]:
    """(all, free) in GiB, within the limit of a container."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 / GIB for line in lines if len(line.split()) > 1}
        total, free = sizes["MemTotal"], sizes.get("MemAvailable", sizes["MemFree"])
    except (OSError, ValueError, KeyError):
        try:
            total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
        except (ValueError, OSError, AttributeError):
            return None, 0.0
        return total, total
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        try:
            most = int(Path("/sys/fs/cgroup", limit).read_text(encoding="ascii")) / GIB
            now = int(Path("/sys/fs/cgroup", used).read_text(encoding="ascii")) / GIB
        except (OSError, ValueError):
            continue
        if most < total:
            total, free = most, min(free, max(0.0, most - now))
    return total, free


def disk_check(place: Path) -> Check:
    while not place.exists():
        place = place.parent
    usage = shutil.disk_usage(place)
    found, data = f"{usage.free / 1e9:.0f} GB free of {usage.total / 1e9:.0f}", {"free_gb": round(usage.free / 1e9, 1)}
    if usage.free < LEAST_DISK_GB * 1e9:
        fix = "free space: training's packages take 1.6 to 10 GB, one checkpoint of a 1.5B model in float32 19 GB"
        return Check("disk", WARNING, found, fix, data)
    return Check("disk", OK, found, data=data)


def ask_driver() -> tuple[list[Card], str | None]:
    """(GPUs, why there are none) by nvidia-smi; the reason is None where there simply is no NVIDIA driver."""
    if shutil.which("nvidia-smi") is None:
        return [], None
    command = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=SMI_S)  # noqa: S603  (our own list, no shell)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return [], f"nvidia-smi gives no answer ({type(exc).__name__})"
    if done.returncode:
        return [], (done.stdout.strip() or done.stderr.strip() or f"nvidia-smi ends with {done.returncode}").splitlines()[0]
    return [card for line in done.stdout.splitlines() if (card := _card(line))], None


def _card(line: str) -> Card | None:
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != len(FIELDS):
        return None

    def number(text: str) -> float | None:  # "[N/A]" on unified memory
        return float(text) if re.fullmatch(r"[\d.]+", text) else None

    total, used = number(parts[1]), number(parts[2])
    return Card(parts[0], total and total / 1024, used if used is None else used / 1024, parts[3], number(parts[4]))


def ask_torch() -> dict[str, Any] | str | None:
    """What torch sees; a text if it fails, None if it is not installed. In a process of its own: an import takes seconds, a driver may hang."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return None
    try:
        done = subprocess.run([sys.executable, "-c", ASK_TORCH], capture_output=True, encoding="utf-8", errors="replace", timeout=TORCH_S)  # noqa: S603  (our own list, no shell)
        return json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return f"importing torch took more than {TORCH_S} s"
    except (OSError, ValueError, IndexError):
        return ("torch cannot be imported: " + (done.stderr.strip().splitlines() or ["no message"])[-1])[:300]


def gpu_checks(cards: list[Card], driver_says: str | None, torch: dict[str, Any] | str | None) -> list[Check]:
    """Driver, GPUs, and whether torch can use them."""
    if driver_says:
        fix = "reload or reinstall the driver, or start the container with the GPUs; nvidia-smi must list them"
        return [Check("gpu", WARNING, f"the NVIDIA driver does not answer: {driver_says}", fix)]
    usable = torch["gpus"] if isinstance(torch, dict) else []
    if isinstance(torch, dict) and torch["other"]:
        return [Check("gpu", WARNING, f"torch sees a device of kind {torch['other']}; this was made for CUDA", "", {"count": 0})]
    if not cards and not usable:
        fix = "for the quickstart a CPU is enough; train a real model on a machine with an NVIDIA GPU (memory_plan.py --gpus compares them)"
        return [Check("gpu", WARNING, "no GPU", fix, {"count": 0})]
    shown = cards or [Card(g["name"], g["total_gib"], None, "", float("{}.{}".format(*g["capability"]))) for g in usable]
    checks = [_cards(shown)]
    if isinstance(torch, dict) and not torch["available"]:
        what = "is a CPU build" if not (torch["cuda"] or torch["hip"]) else f"was built for CUDA {torch['cuda']} and cannot use this driver"
        fix = f"install torch's CUDA build for driver {shown[0].driver or 'here'} (pytorch.org, Get started), or a newer driver"
        checks.append(Check("torch-cuda", BLOCKED, f"there is a GPU, but torch {torch['version']} {what}", fix))
    return checks


def _cards(cards: Sequence[Card]) -> Check:
    names = {card.name for card in cards}
    sizes = sorted({round(card.total_gib, 1) for card in cards if card.total_gib})
    found = f"{len(cards)} x {', '.join(sorted(names))}" + (f", {' / '.join(map(str, sizes))} GiB" if sizes else ", unified memory")
    found += f"; driver {cards[0].driver}" if cards[0].driver else ""
    data = {"count": len(cards), "gpus": [vars(card) for card in cards]}
    busy = [i for i, card in enumerate(cards) if card.used_gib and card.total_gib and card.used_gib > 0.05 * card.total_gib]
    if busy:
        used = max(cards[i].used_gib for i in busy)
        return Check("gpu", WARNING, f"{found}; {used:.1f} GiB of it already in use", "nvidia-smi shows by whom; vLLM counts that as taken", data)
    if len(names) > 1:
        return Check("gpu", WARNING, found, "plan for the smallest one, or choose equal ones with CUDA_VISIBLE_DEVICES", data)
    if any(card.capability and card.capability < 8 for card in cards):
        fix = "set grpo.bf16: false and grpo.fp16: true (compute capability below 8.0)"
        return Check("gpu", WARNING, f"{found}; no bfloat16", fix, data)
    return Check("gpu", OK, found, data=data)


def platform_name(cards: Sequence[Card]) -> str:
    """A word for the kind of machine: dgx-spark, generic-nvidia or cpu."""
    if any("GB10" in card.name for card in cards):
        return "dgx-spark"
    return "generic-nvidia" if cards else "cpu"
