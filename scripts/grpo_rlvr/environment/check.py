"""One thing that was looked at, and what follows from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.visible import fold, visible

OK, WARNING, BLOCKED = "ok", "warning", "blocked"
READY, WITH_WARNINGS = "ready", "ready-with-warnings"


@dataclass(frozen=True)
class Check:
    """`found` says what is there, `fix` what to do unless it is fine. `no` marks a check that ran and says no, where nothing is missing."""

    name: str
    status: str
    found: str
    fix: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    no: bool = False

    def __post_init__(self) -> None:
        for name in ("found", "fix"):
            object.__setattr__(self, name, visible(fold(getattr(self, name), 1200, 12)))

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "status": self.status, "found": self.found, "fix": self.fix, **({"data": self.data} if self.data else {})}


def verdict(checks: Sequence[Check]) -> str:
    """ready, ready-with-warnings or blocked."""
    statuses = {check.status for check in checks}
    return BLOCKED if BLOCKED in statuses else WITH_WARNINGS if WARNING in statuses else READY


def exit_code(checks: Sequence[Check], strict: bool) -> int:
    """0 for ready, also with warnings unless `strict` (then 1); 3 if something is missing here; 1 if all is here and the run does not fit."""
    blocked = [check for check in checks if check.status == BLOCKED]
    if blocked:
        return 1 if all(check.no for check in blocked) else 3
    return 1 if strict and verdict(checks) == WITH_WARNINGS else 0
