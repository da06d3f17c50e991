"""The three kinds of failure, kept apart.

A mistake of the user is a `UserError` (all problems at once), something absent from the machine is a `MissingError`,
and a check that says no is a `CheckFailed`. What a model wrote is never an error: it is a score.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grpo_rlvr.visible import fold, visible

EXIT_YES, EXIT_NO, EXIT_MISTAKE, EXIT_MISSING = 0, 1, 2, 3
EXIT_INTERNAL = 70  # a fault of the package itself, apart from the four answers


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: `where` it stands, what it is (with the value that was got), what to do next.

    A message may quote what a model or a file wrote, so it is made fit for a terminal here: escapes spelled out, long text folded.
    """

    where: str
    message: str
    fix: str = ""

    def __post_init__(self) -> None:
        for name in ("where", "message", "fix"):
            object.__setattr__(self, name, visible(fold(str(getattr(self, name)), 1500, 20)))

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n    -> {self.fix}" if self.fix else text


class GrpoRlvrError(ValueError):
    """Base of the errors a script turns into one clear message and an exit code."""

    exit_code = EXIT_MISTAKE

    def __init__(self, kind: str, problems: Problem | Iterable[Problem]):
        self.kind = kind
        self.problems = [problems] if isinstance(problems, Problem) else list(problems)
        super().__init__("\n".join(str(p) for p in self.problems))

    def __reduce__(self):
        return type(self), (self.kind, self.problems)

    def to_json(self) -> dict:
        """The `error` object of `--json`: `kind`, `message`, `fix` (of the first problem) and all `problems`."""
        return {
            "kind": self.kind,
            "message": "; ".join(f"{p.where}: {p.message}" if p.where else p.message for p in self.problems),
            "fix": next((p.fix for p in self.problems if p.fix), ""),
            "problems": [{"where": p.where, "message": p.message, "fix": p.fix} for p in self.problems],
        }


class UserError(GrpoRlvrError):
    """What was asked for cannot be done as written (exit 2). `kind` is a short word: config, data, gold, gate, run."""


class GoldError(UserError):
    """Gold columns that a reward cannot read; the problems name the rows."""

    def __init__(self, problems: Problem | Iterable[Problem], kind: str = "gold"):
        super().__init__(kind, problems)

    def __reduce__(self):
        return type(self), (self.problems, self.kind)


class MissingError(GrpoRlvrError):
    """Something is missing on this machine (exit 3): a package, a GPU, a model folder. The fix installs it."""

    exit_code = EXIT_MISSING


class CheckFailed(GrpoRlvrError):
    """A check ran and the answer is no (exit 1): the gate is shut, the plan does not fit."""

    exit_code = EXIT_NO


def missing_package(package: str, needed_for: str, install: str) -> MissingError:
    """The error for an absent optional dependency, with the command that installs it."""
    return MissingError("missing", Problem(package, f"the package is not installed; it is needed for {needed_for}", f"run: {install}"))
