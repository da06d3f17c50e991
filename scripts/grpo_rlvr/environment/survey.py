"""All checks in order: the machine, the packages, the places, and what a config needs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.environment import machine, needs, places, versions
from grpo_rlvr.environment.check import BLOCKED, OK, READY, WARNING, Check, verdict

MARKS = {OK: "ok", WARNING: "warning", BLOCKED: "BLOCKED"}
COLOURS = {OK: "\033[32m", WARNING: "\033[33m", BLOCKED: "\033[31m"}
PLAIN, MARK = "\033[0m", 9


def survey(config: Config | None, ask_hub: bool = True) -> tuple[str, list[Check]]:
    """(kind of machine, all checks). Takes seconds where torch is installed, which is asked in a process of its own."""
    cards, driver = machine.ask_driver()
    torch = machine.ask_torch()
    checks = [machine.python_check(), machine.memory_check(), machine.disk_check(config.run_folder if config else Path.cwd())]
    checks += machine.gpu_checks(cards, driver, torch)
    if isinstance(torch, str):
        checks.append(Check("torch", BLOCKED, torch, "reinstall it: python -m pip install --force-reinstall -c SKILL/constraints.txt torch"))
    checks += versions.package_checks()
    seen = cards or [machine.Card(g["name"], g["total_gib"]) for g in (torch["gpus"] if isinstance(torch, dict) else ())]
    remote: list[str] = []
    if config is not None:
        own, remote = _of_config(config, seen)
        checks += own
    sandbox = needs.sandbox_of(config) if config else None
    checks += [places.isolation_check(sandbox or "auto", needed=sandbox is not None), places.cache_check()]
    if ask_hub:
        checks.append(places.hub_check(remote))
    return machine.platform_name(seen), checks


def _of_config(config: Config, cards: Sequence[machine.Card]) -> tuple[list[Check], list[str]]:
    model, fetch = needs.model_check(config)
    data, remote = needs.data_checks(config)
    memory, workload = needs.memory_check(config, cards)
    checks = [model, *data, needs.folder_check(config), *needs.settings_check(config, len(cards)), *needs.count_check(config, cards), memory]
    return [*checks, needs.disk_check(config, workload)], [*([config.model.name_or_path] if fetch else []), *remote]


def report(checks: Sequence[Check], platform: str) -> dict[str, Any]:
    """The `environment` part of env-report.json."""
    return {"verdict": verdict(checks), "platform": platform, "checks": [check.to_json() for check in checks]}


def page(checks: Sequence[Check], width: int, colour: bool) -> str:
    """For people: the verdict, then each thing with its fix; at most `width` columns."""
    width = max(60, min(width, 110))

    def paint(text: str, status: str) -> str:
        return f"{COLOURS[status]}{text}{PLAIN}" if colour else text

    whole = verdict(checks)
    counts = {status: sum(check.status == status for check in checks) for status in (BLOCKED, WARNING)}
    what = ", ".join(f"{n} {'blocked' if s == BLOCKED else 'warning' + 's' * (n > 1)}" for s, n in counts.items() if n)
    lines = [paint(whole, OK if whole == READY else BLOCKED if whole == BLOCKED else WARNING) + (f"  ({what})" if what else ""), ""]
    name = min(24, max(len(check.name) for check in checks) + 2)
    rest = " " * (name + MARK)
    for check in checks:
        mark = MARKS[check.status].ljust(MARK)
        found = textwrap.wrap(check.found, width - len(rest), break_long_words=False, break_on_hyphens=False) or [""]
        lines.append(f"{check.name:<{name}}{paint(mark, check.status)}{found[0]}")
        lines += [rest + line for line in found[1:]]
        if check.fix and check.status != OK:
            lines += textwrap.wrap(check.fix, width, initial_indent=f"{rest}-> ", subsequent_indent=f"{rest}   ", break_long_words=False,
                                   break_on_hyphens=False)  # fmt: skip
    return "\n".join(lines)
