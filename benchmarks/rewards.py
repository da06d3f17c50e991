#!/usr/bin/env python3
"""Speed and verdicts of the rewards, as ratios within one process: math beside its peers, the others in completions a second.

Every round has a batch of its own, so that nothing is remembered from the round before; a first round that is not counted starts the algebra
worker and fills the parser tables of all three. The peers get what is best for them: one box in each completion, golds in dollars, and
their time limits by signal in the main thread. `wrong` counts verdicts that are not the truth the batch was built with.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from grpo_rlvr import rewards
from math_task import Batch, make_batch
from reward_cases import CASES, HOSTILE, Case

MATH_TARGET, RATE_TARGET = 5.0, 100_000
LONG = (100_000, 1_000_000)


# ---- math beside its peers


def ours(batch: Batch) -> list[float | None]:
    return rewards.math_reward(completions=batch.completions, answer=batch.golds)


def trl_accuracy(batch: Batch) -> list[float | None]:
    from trl.rewards import accuracy_reward

    return accuracy_reward([[{"role": "assistant", "content": c}] for c in batch.completions], batch.golds)


def plain_math_verify(batch: Batch) -> list[float | None]:
    from math_verify import parse, verify

    return [float(verify(parse(gold), parse(completion))) for gold, completion in zip(batch.golds, batch.completions, strict=True)]


PEERS: dict[str, Callable[[Batch], list]] = {"math": ours, "trl accuracy_reward": trl_accuracy, "math-verify": plain_math_verify}


def compare_math(prompts: int, group: int, rounds: int) -> dict[str, Any]:
    """Seconds and wrong verdicts of each, and the ratio of each peer's time to ours: the median of the rounds and their range."""
    for score in PEERS.values():
        score(make_batch(1000, max(4, prompts // 4), group))
    seconds: dict[str, list[float]] = {name: [] for name in PEERS}
    wrong = dict.fromkeys(PEERS, 0)
    for round_ in range(rounds):
        batch = make_batch(round_, prompts, group)
        for name, score in PEERS.items():
            start = time.perf_counter()
            values = score(batch)
            seconds[name].append(time.perf_counter() - start)
            wrong[name] += sum(value != float(truth) for value, truth in zip(values, batch.truth, strict=True))
    result: dict[str, Any] = {"completions": prompts * group, "rounds": rounds, "target_ratio": MATH_TARGET, "reward": {}}
    for name in PEERS:
        ratios = [peer / mine for peer, mine in zip(seconds[name], seconds["math"], strict=True)]
        result["reward"][name] = {
            "seconds": round(statistics.median(seconds[name]), 3), "times_ours": round(statistics.median(ratios), 2),
            "range": [round(min(ratios), 2), round(max(ratios), 2)], "wrong": wrong[name],
            "agreement": 1 - wrong[name] / (prompts * group * rounds),
        }  # fmt: skip
    return result


# ---- each reward alone


def measure(name: str, case: Case, count: int, rounds: int, sizes: tuple[int, int]) -> dict[str, Any]:
    """Completions a second (best round), verdicts, the rate of the bare library call, and the time of 1 MB over that of 100 KB.

    Seconds are of this process's computing, so that a busy machine changes them little.
    """
    reward = case.reward()
    truth = [i % 2 == 0 for i in range(count)]
    texts = [(case.right if right else case.wrong)(i // 8 * 8) for i, right in enumerate(truth)]
    columns = {key: [case.gold(i // 8 * 8)[key] for i in range(count)] for key in case.gold(0)}
    if case.ids:
        columns["completion_ids"] = [[0] * case.ids[0 if right else 1] for right in truth]
    best = bare = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        values = reward(completions=texts, **columns)
        best = min(best, time.process_time() - start)
        if case.bare:
            start = time.process_time()
            case.bare(texts)
            bare = min(bare, time.process_time() - start)
    # The same number of characters in both calls: what is left is what grows faster than the text.
    copies = [10 * sizes[1] // size for size in sizes]
    gold = case.gold(7) | ({"completion_ids": [0] * case.ids[0]} if case.ids else {})
    times = []
    for size, number in zip(sizes, copies, strict=True):
        text = case.long(size)
        took = []
        for _ in range(rounds):
            start = time.process_time()
            long_values = reward(completions=[text] * number, **{key: [value] * number for key, value in gold.items()})
            took.append((time.process_time() - start) / number)
        times.append(min(took))
        assert long_values == [case.values[0]] * number, name
    worst = max((hostile(reward, gold, unit, sizes) for unit in HOSTILE), key=lambda found: found[1])
    result = {
        "per_second": round(count / best), "wrong": sum(value != case.values[0 if right else 1] for value, right in zip(values, truth, strict=True)),
        "ms_100kb": round(1000 * times[0], 3), "ms_1mb": round(1000 * times[1], 3), "growth": round(times[1] / times[0], 1),
        "worst_ms_1mb": round(1000 * worst[1], 1), "worst_growth": round(worst[1] / worst[0], 1), "worst_unit": worst[2],
    }  # fmt: skip
    if case.bare:
        result |= {"bound": case.bound, "bound_per_second": round(count / bare), "times_bound": round(best / bare, 2)}
    return result


def hostile(reward: Callable, gold: dict[str, Any], unit: str, sizes: tuple[int, int]) -> tuple[float, float, str]:
    """Seconds for the two sizes of a completion that repeats `unit`, bare and inside the answer, and the unit."""
    times = []
    for size in sizes:
        body = unit * (size // len(unit))
        texts = [body, f"<reasoning>a</reasoning><answer>{body}</answer>"]
        start = time.process_time()
        reward(completions=texts, **{key: [value] * 2 for key, value in gold.items()})
        times.append(time.process_time() - start)
    return times[0], times[1], unit


def show(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(stderr=True, highlight=False)
    if "math" in result:
        math = result["math"]
        table = Table("reward", "seconds", "times ours", "range", "wrong", title=f"{math['completions']} completions, {math['rounds']} rounds")
        for name, row in math["reward"].items():
            table.add_row(name, f"{row['seconds']:.2f}", f"{row['times_ours']:.1f}", "{:.1f} to {:.1f}".format(*row["range"]), str(row["wrong"]))
        console.print(table)
    table = Table(
        "reward",
        "short/s",
        "wrong",
        "100 KB",
        "1 MB",
        "ratio",
        "worst 1 MB",
        "ratio",
        "bound by",
        title=f"target {RATE_TARGET:,}/s; ratio near 10 is linear",
    )
    for name, row in result["others"].items():
        bound = f"{row['bound']}: {row['bound_per_second']:,}/s, {row['times_bound']} times its time" if "bound" in row else ""
        times = f"{row['ms_100kb']:.2f} ms", f"{row['ms_1mb']:.2f} ms"
        worst = f"{row['worst_ms_1mb']:.0f} ms of {row['worst_unit'].encode('unicode_escape').decode()}", f"{row['worst_growth']:.1f}"
        table.add_row(name, f"{row['per_second']:,}", str(row["wrong"]), *times, f"{row['growth']:.1f}", *worst, bound)
    console.print(table)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=256, help="prompts of the math batch (default %(default)s)")
    parser.add_argument("--group", type=int, default=8, help="completions of a prompt (default %(default)s)")
    parser.add_argument("--count", type=int, default=20_000, help="short completions for each other reward (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions (default %(default)s)")
    parser.add_argument("--without-peers", action="store_true", help="leave out the comparison with TRL and math-verify")
    parser.add_argument("--tiny", action="store_true", help="a few completions: does it run and are the verdicts right")
    parser.add_argument("--json", action="store_true", help="the numbers as one JSON object on stdout")
    args = parser.parse_args(argv)
    sizes = LONG
    if args.tiny:
        args.prompts, args.group, args.count, args.rounds, sizes = 24, 2, 40, 1, (1_000, 10_000)
    result: dict[str, Any] = {"schema": "grpo-rlvr/reward-benchmark/1"}
    if not args.without_peers:
        result["math"] = compare_math(args.prompts, args.group, args.rounds)
    result["others"] = {name: measure(name, case, args.count, args.rounds, sizes) for name, case in CASES.items()}
    if args.json:
        print(json.dumps(result))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
