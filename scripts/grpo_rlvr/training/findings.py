"""What a check of the settings says, and the error that carries all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from grpo_rlvr.errors import Problem, UserError

LEVELS = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing to change or to know. `code` is stable; `message` carries the numbers that disagree."""

    level: str
    code: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.level} [{self.code}] {self.message}" + (f"\n    -> {self.fix}" if self.fix else "")


error, warning, note = (partial(Finding, level) for level in LEVELS)


class LintError(UserError):
    """Settings that cannot work. `--json` carries the warnings and notes too, in `findings`."""

    def __init__(self, findings: Sequence[Finding]):
        self.findings = list(findings)
        super().__init__("config", [Problem(f.code, f.message, f.fix) for f in findings if f.level == "error"])

    def __reduce__(self):
        return type(self), (self.findings,)

    def to_json(self) -> dict:
        return {**super().to_json(), "findings": [vars(f) for f in self.findings]}
