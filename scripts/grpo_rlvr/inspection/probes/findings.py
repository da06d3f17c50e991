"""A probe's finding: its parts, and the smallest completion that proves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.completions import completion_text
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.mutate import replaced

SEVERITIES = ("error", "warning", "ok")
LONGEST = 20_000  # characters of a completion that are kept in a finding


def finding(probe: str, severity: str, message: str, example: dict | None = None, tried: int = 0, paid: int = 0, **more: Any) -> dict:
    """The parts every finding has; `mutants` is how many completions were tried and `unpunished` how many of them prove the fault."""
    return {"probe": probe, "severity": severity, "message": message, "mutants": tried, "unpunished": paid, "example": example, **more}


def has_error(findings: Sequence[Mapping]) -> bool:
    """Whether one is an error that nobody has accepted (see `inspection.waivers`)."""
    return any(f["severity"] == "error" and not f.get("accepted") for f in findings)


def attack_example(sample: Mapping, row: Mapping, completion: Any, outcome: Mapping | None, old: str, new: str, what: str = "") -> dict:
    """What was changed and what it earned; `outcome` None where the reward raised."""
    outcome = outcome or {"scores": {}, "total": None, "verdict": None}
    example = {
        "sample_id": sample["sample_id"],
        "prompt": sample["prompt"],
        "columns": sample["columns"],
        "original": {"answer": old, **scored(sample, row)},
        "mutant": {"answer": new, **scored({"completion": completion}, outcome)},
    }
    return {**example, "what": what} if what else example


def pair_example(sample: Mapping, pair: Mapping[str, dict]) -> dict:
    """Two scorings side by side, by a word each."""
    return {"sample_id": sample["sample_id"], "prompt": sample["prompt"], "pair": dict(pair)}


def scored(sample: Mapping, row: Mapping) -> dict:
    """A completion with what it earned."""
    return {"completion": shortened(sample["completion"]), "scores": row["scores"], "total": row["total"], "verdict": row["verdict"]}


def shortened(completion: Any) -> Any:
    """A completion for a report: a very long one with its middle left out."""
    text = completion_text(completion)
    if len(text) <= LONGEST:
        return completion
    half = LONGEST // 20
    return replaced(completion, f"{text[:half]}[... {len(text) - 2 * half:,} characters left out ...]{text[-half:]}")


def said(exc: UserError) -> str:
    """The reward and its exception or bad value, in words."""
    problem = exc.problems[0]
    return f"reward {problem.where} {'raises ' if exc.__cause__ is not None else ''}{problem.message}"
