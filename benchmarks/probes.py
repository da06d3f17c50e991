#!/usr/bin/env python3
"""Seconds that scoring, probing and selecting take, for quick rewards of each kind; no model, the completions are made up.

A growth near the ratio of the two sizes is linear; the probes attack a fixed number of completions, so theirs is far below.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from grpo_rlvr.inspection.probes import run_probes
from grpo_rlvr.inspection.samples import sample_ids
from grpo_rlvr.inspection.scores import score_samples
from grpo_rlvr.inspection.select import select_rows
from grpo_rlvr.rewards.registry import BuiltReward, make_builtin

GROUP, READ = 8, 60
TOWNS = ("Oslo", "Lima", "Quito", "Cairo", "Delhi", "Tunis", "Accra", "Baku", "Seoul", "Sofia", "Minsk", "Dakar")


def sums(rng: random.Random) -> tuple[str, dict, Callable[[bool], str]]:
    a, b = rng.randint(100, 999), rng.randint(100, 999)
    work = " ".join(f"{a} and {b}, step {k}." for k in range(rng.randint(3, 60)))

    def write(right: bool) -> str:
        return f"<reasoning>{work}</reasoning>\n<answer>{a + b + (0 if right else rng.randint(1, 9))}</answer>"

    return f"What is {a} plus {b}?", {"answer": str(a + b)}, write


def calls(rng: random.Random) -> tuple[str, dict, Callable[[bool], str]]:
    town, days = rng.choice(TOWNS), rng.randint(1, 99)

    def write(right: bool) -> str:
        call = {"name": "forecast", "arguments": {"city": town, "days": days if right else days + 1}}
        return f"<think>{'I look it up. ' * rng.randint(1, 40)}</think>\n<tool_call>\n{json.dumps(call)}\n</tool_call>"

    gold = [{"name": "forecast", "arguments": {"city": town, "days": days}}]
    return f"Weather in {town} for {days} days?", {"expected_calls": json.dumps(gold)}, write


def letters(rng: random.Random) -> tuple[str, dict, Callable[[bool], str]]:
    gold, number = rng.choice("ABCD"), rng.randint(1, 10**6)

    def write(right: bool) -> str:
        letter = gold if right else rng.choice([c for c in "ABCD" if c != gold])
        return f"<think>{'Not this one. ' * rng.randint(1, 60)}</think>\nThe answer is ({letter})."

    return f"Question {number}: A, B, C or D?", {"answer": gold}, write


TASKS: dict[str, tuple[Callable, tuple[str, ...]]] = {
    "exact, format": (sums, ("exact", "format")),
    "math, partial_format": (sums, ("math", "partial_format")),
    "choice": (letters, ("choice",)),
    "tool_calls": (calls, ("tool_calls",)),
}


def make_samples(task: Callable, count: int, seed: int) -> list[dict]:
    """`count` samples, `GROUP` a prompt, about half of them right."""
    rng = random.Random(seed)
    rows = []
    for index in range(count // GROUP):
        prompt, columns, write = task(rng)
        rows += [(index, prompt, columns, write(rng.random() < 0.5)) for _ in range(GROUP)]
    ids = sample_ids([(prompt, completion) for _, prompt, _, completion in rows])
    return [
        {
            "sample_id": sample_id, "prompt_index": index, "prompt": prompt, "completion": completion,
            "columns": {"row_id": f"train:{index}", **columns}, "finish": "stop", "tokens": len(completion) // 4,
        }
        for sample_id, (index, prompt, columns, completion) in zip(ids, rows, strict=True)
    ]  # fmt: skip


def measure(name: str, count: int) -> dict[str, Any]:
    task, uses = TASKS[name]
    made = [(use, make_builtin(use, {"finished": True} if use == "math" else {})) for use in uses]
    rewards = [BuiltReward(use, reward, 1.0, reward.correctness, tuple(reward.columns)) for use, reward in made]
    samples = make_samples(task, count, seed=count)
    seconds = {}
    start = time.perf_counter()
    scores, _ = score_samples(rewards, samples, 0.5)
    seconds["score"] = time.perf_counter() - start
    start = time.perf_counter()
    findings = run_probes(rewards, samples, scores, 0.5)
    seconds["probes"] = time.perf_counter() - start
    start = time.perf_counter()
    rows = select_rows(samples, scores, READ, 0)
    seconds["select"] = time.perf_counter() - start
    return {
        "completions": len(samples), "seconds": {k: round(v, 2) for k, v in seconds.items()}, "tried": sum(f["mutants"] for f in findings),
        "errors": sorted(f["probe"] for f in findings if f["severity"] == "error"), "selected": len(rows),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--completions", type=int, default=10_000, help="completions of the larger size (default: 10000)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout instead of the table")
    args = parser.parse_args()
    sizes = (max(GROUP, args.completions // 4), args.completions)
    measure("exact, format", 8 * GROUP)  # imports and tables of the first call
    result = {name: [measure(name, size) for size in sizes] for name in TASKS}
    if args.json:
        print(json.dumps({"sizes": sizes, "tasks": result}))
        return
    print(f"{'reward':22} {'completions':>11} {'score s':>8} {'probes s':>9} {'select s':>9} {'tried':>6}  errors")
    for name, runs in result.items():
        for run in runs:
            s = run["seconds"]
            print(
                f"{name:22} {run['completions']:11,} {s['score']:8.2f} {s['probes']:9.2f} {s['select']:9.2f} {run['tried']:6,}  "
                f"{', '.join(run['errors']) or 'none'}"
            )


if __name__ == "__main__":
    main()
