"""Hidden cases put to the reward that an agent left, in a process of its own.

That code is the agent's: it runs on a copy of the folder, with a time limit, and is told completions and gold but not which of them are right.
It is not isolated from this machine beyond that; the agent that wrote it had the same rights.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from graders.left import Left

CHILD = Path(__file__).resolve().parent / "reward_child.py"
TIMEOUT_S = 120
_BIG = shutil.ignore_patterns(".venv", "venv", ".git", "runs", "checkpoint-*", "model", "*.safetensors", "node_modules")


@dataclass(frozen=True)
class Case:
    """`gold` is handed over as columns of these names; `also` in its place where the reward cannot read it.

    `row`: words of the prompt that it answers. Where the config's training data has that prompt, the columns that an agent gave it are added.
    """

    name: str
    completion: str
    gold: dict = field(default_factory=dict)
    also: dict = field(default_factory=dict)
    row: str = ""


def judge(left: Left, reference: Case, cases: list[Case], timeout_s: float = TIMEOUT_S, share: float = 0.5) -> tuple[dict[str, bool | None], str]:
    """Which cases the reward pays, by name; or {} and why none could be scored.

    Args:
        reference: a plainly right completion. A case is paid if the reward's own verdict is a pass and its total at least `share` of that one's.
    """
    every = [reference, *cases]
    with tempfile.TemporaryDirectory() as top:
        copy, request, result = Path(top) / "project", Path(top) / "request.json", Path(top) / "result.json"
        try:
            shutil.copytree(left.folder, copy, ignore=_BIG, symlinks=True)
        except OSError as exc:  # a pipe or a device among the files
            return {}, f"the folder cannot be copied: {exc}"
        request.write_text(
            json.dumps([{"completion": c.completion, "golds": [c.gold, c.also or c.gold], "row": c.row} for c in every]), encoding="utf-8"
        )
        command = [sys.executable, str(CHILD), str(copy), str(request), str(result)]
        process = subprocess.Popen(
            command, cwd=copy, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            _, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return {}, f"the reward did not return within {timeout_s:.0f} s"
        if not result.is_file():
            return {}, f"the reward could not be run: {errors.strip()[-300:]}"
        answer = json.loads(result.read_text(encoding="utf-8"))
    if "error" in answer:
        return {}, answer["error"]
    totals, verdicts = answer["totals"], answer["verdicts"]
    if verdicts[0] is not True or not totals[0] or totals[0] <= 0:
        return {}, f"a plainly right completion ({reference.name}) is not paid: total {totals[0]}"
    paid = [v is not None and v and t is not None and t >= share * totals[0] for t, v in zip(totals, verdicts, strict=True)]
    return {case.name: p for case, p in zip(cases, paid[1:], strict=True)}, ""


def all_paid(left: Left, reference: Case, cases: list[Case], **options) -> tuple[bool, str]:
    paid, problem = judge(left, reference, cases, **options)
    return _outcome(paid, problem, [name for name, yes in paid.items() if not yes], "not paid", "all paid")


def none_paid(left: Left, reference: Case, cases: list[Case], **options) -> tuple[bool, str]:
    paid, problem = judge(left, reference, cases, **options)
    return _outcome(paid, problem, [name for name, yes in paid.items() if yes], "paid", "none paid")


def _outcome(paid: dict, problem: str, wrong: list[str], state: str, fine: str) -> tuple[bool, str]:
    if problem:
        return False, problem
    return not wrong, f"{state}: {', '.join(wrong)}" if wrong else f"{fine}: {', '.join(paid)}"
