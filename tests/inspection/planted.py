"""The planted rewards and the tasks they are run on."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from grpo_rlvr.inspection.probes import run_probes
from grpo_rlvr.inspection.samples import sample_ids
from grpo_rlvr.inspection.scores import score_samples
from grpo_rlvr.rewards.registry import BuiltReward
from grpo_rlvr.rewards.user_functions import UserReward

DATA = Path(__file__).resolve().parents[1] / "data"
TASKS = json.loads((DATA / "planted_tasks.json").read_text())
PLANTED = yaml.safe_load((DATA / "planted_rewards.yaml").read_text())
HELPERS = '''\
import json, re

def text(c):
    return c if isinstance(c, str) else (c[-1].get("content") if c else "") or ""

def tag(c, after=""):
    """The last answer tag's content, after a mark if there is one."""
    whole = text(c) if isinstance(text(c), str) else ""
    found = re.findall(r"<answer>([^<]*)</answer>", whole.rpartition(after)[2] if after else whole)
    return found[-1].strip() if found else ""

def value(c):
    try:
        return json.loads(text(c))
    except (ValueError, RecursionError):
        return None

'''


def task_samples(task: str, more: list | None = None) -> list[dict]:
    """The recorded samples of a task as an inspection holds them; `more` are [answer, completion]."""
    rows = [dict(row) for row in TASKS[task]]
    for answer, words in more or []:
        like = rows[0]
        completion = words if isinstance(like["completion"], str) else [{"role": "assistant", "content": words}]
        rows.append({"prompt": like["prompt"], "completion": completion, "columns": {"answer": answer}})
    ids = sample_ids([(r["prompt"], r["completion"]) for r in rows])
    return [
        {"sample_id": sample_id, "prompt_index": i, **row, "columns": {"row_id": f"train:{i}", **row["columns"]}, "finish": "stop", "tokens": None}
        for i, (sample_id, row) in enumerate(zip(ids, rows, strict=True))
    ]


def built(entry: dict, folder: Path) -> BuiltReward:
    """The reward of an entry, from a file of its own."""
    path = folder / f"{entry['name']}.py"
    path.write_text(HELPERS + entry["code"])
    function = UserReward(entry["name"], f"{path.name}:reward", folder, {})
    return BuiltReward(entry["name"], function.function if entry.get("direct") else function, 1.0, True, function.columns)


def findings_of(entry: dict, folder: Path) -> list[dict]:
    reward, threshold = built(entry, folder), entry.get("threshold", 0.5)
    samples = task_samples(entry["task"], entry.get("more"))
    scores, _ = score_samples([reward], samples, threshold)
    return run_probes([reward], samples, scores, threshold)
