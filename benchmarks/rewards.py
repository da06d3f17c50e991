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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from grpo_rlvr import rewards
from grpo_rlvr.rewards.registry import REGISTRY, make_builtin
from math_task import Batch, make_batch

MATH_TARGET, RATE_TARGET = 5.0, 100_000
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"]}
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


# ---- the other rewards


@dataclass(frozen=True)
class Case:
    """How to measure one reward: a right and a wrong short completion of item i, its gold, and a long completion.

    `bound` names the library call that a slow reward spends its time in, and `bare` makes that call alone.
    """

    right: Callable[[int], str]
    wrong: Callable[[int], str]
    gold: Callable[[int], dict[str, Any]]
    long: Callable[[int], str]
    args: dict[str, Any] = field(default_factory=dict)
    bound: str = ""
    bare: Callable[[list[str]], Any] | None = None


def tagged(answer: object) -> str:
    return f"<reasoning>We add one to the number that is given.</reasoning>\n<answer>{answer}</answer>"


def person(age: object) -> str:
    return f'{{"name": "Ada", "age": {age}}}'


def call(number: object) -> str:
    return f'<tool_call>{{"name": "add", "arguments": {{"a": {number}, "b": 1}}}}</tool_call>'


def validate(texts: list[str]) -> list[bool]:
    from grpo_rlvr.rewards.schemas import compile_schema

    validator = compile_schema(json.dumps(SCHEMA))
    return [validator.is_valid(json.loads(text)) for text in texts]


def prose(size: int) -> str:
    return "We go over the steps once more, a < b and {x} is 3. " * (size // 52)


def no_tags(i: int) -> str:
    return f"{i} is the answer"


def long_tagged(size: int) -> str:
    return f"<reasoning>{prose(size)}</reasoning><answer>7</answer>"


CASES = {
    "format": Case(tagged, no_tags, lambda i: {}, long_tagged),
    "partial_format": Case(tagged, no_tags, lambda i: {}, long_tagged),
    "exact": Case(tagged, lambda i: tagged(i + 1), lambda i: {"answer": str(i)}, long_tagged),
    "math": Case(tagged, lambda i: tagged(i + 1), lambda i: {"answer": str(i)}, long_tagged),
    "choice": Case(lambda i: tagged("ABCD"[i % 4]), lambda i: tagged("ABCD"[i % 4 - 1]), lambda i: {"answer": "ABCD"[i % 4]},
                   lambda size: long_tagged(size).replace("<answer>7<", "<answer>D<")),
    "schema": Case(
        person, lambda i: person('"old"'), lambda i: {"output_schema": json.dumps(SCHEMA)},
        lambda size: f'{{"name": {json.dumps(prose(size))}, "age": 7}}', bound="json.loads + jsonschema Validator.is_valid", bare=validate,
    ),
    "tool_calls": Case(
        call, lambda i: call(i + 1), lambda i: {"expected_calls": json.dumps([{"name": "add", "arguments": {"a": i, "b": 1}}])},
        lambda size: f"<think>{prose(size)}</think>{call(7)}", bound="json.JSONDecoder.raw_decode", bare=lambda texts: [
            json.JSONDecoder().raw_decode(text, len("<tool_call>")) for text in texts
        ],
    ),
}  # fmt: skip
# What long text is built of to make a careless pattern or loop take the square of its length.
HOSTILE = (
    "<answer>", "</answer>", "<reasoning>", "</reasoning>", "<think>", "\\boxed{", "\\boxed{}", "####", "{", "[", '{"a":', "[1,", '{"a":1},',
    "<tool_call>", '<tool_call>{"name":"f","arguments":{}}</tool_call>', "\n", " ", "<|im_end|>", "</s>", "\u0316\u0301", "```",
    "The answer is A. ", "$", "1,", "9",
)  # fmt: skip
# Not measured here: it waits for a server.
NETWORK = ("judge",)


def measure(name: str, case: Case, count: int, rounds: int, sizes: tuple[int, int]) -> dict[str, Any]:
    """Completions a second (best round), verdicts, the rate of the bare library call, and the time of 1 MB over that of 100 KB."""
    reward = make_builtin(name, case.args)
    truth = [i % 2 == 0 for i in range(count)]
    texts = [(case.right if right else case.wrong)(i // 8 * 8) for i, right in enumerate(truth)]
    columns = {key: [case.gold(i // 8 * 8)[key] for i in range(count)] for key in reward.columns}
    best = bare = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        values = reward(completions=texts, **columns)
        best = min(best, time.perf_counter() - start)
        if case.bare:
            start = time.perf_counter()
            case.bare(texts)
            bare = min(bare, time.perf_counter() - start)
    # The same number of characters in both calls: what is left is what grows faster than the text.
    copies = [10 * sizes[1] // size for size in sizes]
    gold = {key: case.gold(7)[key] for key in reward.columns}
    times = []
    for size, number in zip(sizes, copies, strict=True):
        text = case.long(size)
        took = []
        for _ in range(rounds):
            start = time.perf_counter()
            long_values = reward(completions=[text] * number, **{key: [value] * number for key, value in gold.items()})
            took.append((time.perf_counter() - start) / number)
        times.append(min(took))
        assert long_values == [1.0] * number, name
    worst = max((hostile(reward, gold, unit, sizes) for unit in HOSTILE), key=lambda found: found[1])
    result = {
        "per_second": round(count / best), "wrong": sum((value == 1.0) != right for value, right in zip(values, truth, strict=True)),
        "ms_100kb": round(1000 * times[0], 3), "ms_1mb": round(1000 * times[1], 3), "growth": round(times[1] / times[0], 1),
        "worst_ms_1mb": round(1000 * worst[1], 1), "worst_growth": round(worst[1] / worst[0], 1), "worst_unit": worst[2],
    }  # fmt: skip
    return result | ({"bound": case.bound, "bound_per_second": round(count / bare)} if case.bare else {})


def hostile(reward: Callable, gold: dict[str, Any], unit: str, sizes: tuple[int, int]) -> tuple[float, float, str]:
    """Seconds for the two sizes of a completion that repeats `unit`, bare and inside the answer, and the unit."""
    times = []
    for size in sizes:
        body = unit * (size // len(unit))
        texts = [body, f"<reasoning>a</reasoning><answer>{body}</answer>"]
        start = time.perf_counter()
        reward(completions=texts, **{key: [value] * 2 for key, value in gold.items()})
        times.append(time.perf_counter() - start)
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
        bound = f"{row['bound']}: {row['bound_per_second']:,}/s" if "bound" in row else ""
        times = f"{row['ms_100kb']:.2f} ms", f"{row['ms_1mb']:.2f} ms"
        worst = f"{row['worst_ms_1mb']:.0f} ms of {row['worst_unit'].encode('unicode_escape').decode()}", f"{row['worst_growth']:.1f}"
        table.add_row(name, f"{row['per_second']:,}", str(row["wrong"]), *times, f"{row['growth']:.1f}", *worst, bound)
    console.print(table)
    for name in result["not_measured"]:
        console.print(f"not measured: {name}")


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
    known = [name for name in REGISTRY if name in CASES]
    result["others"] = {name: measure(name, CASES[name], args.count, args.rounds, sizes) for name in known}
    result["not_measured"] = [f"{name} ({'waits for a server' if name in NETWORK else 'no case'})" for name in REGISTRY if name not in CASES]
    if args.json:
        print(json.dumps(result))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
