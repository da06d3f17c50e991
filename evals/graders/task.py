"""The tasks of evals.json, and the grade of one."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

from graders.left import Left

# (passed, evidence), or what gives it when it is called: the reward's cases take a process each.
Outcome = tuple[bool, str] | Callable[[], tuple[bool, str]]

EVALS = Path(__file__).resolve().parents[1]
EVIDENCE_CHARS = 400
ANSWER_CHARS = 100_000


def tasks() -> dict[str, dict]:
    """The tasks by id, in the order of evals.json."""
    return {task["id"]: task for task in json.loads((EVALS / "evals.json").read_text(encoding="utf-8"))["evals"]}


def inputs(task: dict) -> dict[str, Path]:
    """Where each input file lies in the agent's folder: our file."""
    top = EVALS / "files" / task["id"]
    return {(EVALS.parent / name).relative_to(top).as_posix(): EVALS.parent / name for name in task["files"]}


def grade(task: dict, folder: Path, answer: str, only: str = "") -> dict:
    """The results in the form of `assertion_results` and `summary`.

    Args:
        only: grade the assertions alone that have these words.
    """
    left = Left(Path(folder), answer[-ANSWER_CHARS:], inputs(task))
    module = importlib.import_module(f"graders.{task['id'].replace('-', '_').replace('7b', 'seven_b')}")
    outcomes = module.grade(left)
    chosen = [(text, outcome) for text, outcome in zip(task["assertions"], outcomes, strict=True) if only in text]
    results = []
    for text, outcome in chosen:
        passed, evidence = outcome() if callable(outcome) else outcome
        results.append({"text": text, "passed": bool(passed), "evidence": str(evidence)[:EVIDENCE_CHARS]})
    passed = sum(r["passed"] for r in results)
    summary = {"passed": passed, "failed": len(results) - passed, "total": len(results), "pass_rate": passed / max(1, len(results))}
    return {"id": task["id"], "assertion_results": results, "summary": summary}
