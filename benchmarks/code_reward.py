"""The code reward beside the common ways to score code, in one run: completions a second, and whether the verdicts are right.

    python benchmarks/code_reward.py [--completions 64] [--workers 2] [--rounds 3] [--json]

The others: pytest in a process for each completion (judged by exit code, no sandbox), and the same calls in forked workers (no sandbox, no
limits, compared inside). Neither is safe; they are here for their speed. Read ratios, not numbers: machines differ and are noisy.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from grpo_rlvr.rewards import make_code_reward
from grpo_rlvr.sandbox import Limits, open_pool

RIGHT = """
def primes_below(n):
    sieve = [True] * max(n, 2)
    for i in range(2, n):
        if sieve[i]:
            for j in range(i * i, n, i):
                sieve[j] = False
    return [i for i in range(2, n) if sieve[i]]
"""
WRONG = "def primes_below(n):\n    return [i for i in range(2, n) if i % 2]\n"
CASES = [(10, [2, 3, 5, 7]), (2, []), (3, [2]), (20, [2, 3, 5, 7, 11, 13, 17, 19]), (0, [])]
ENTRY = "primes_below"


def batch(count: int) -> tuple[list[str], list[float]]:
    """Completions, three of four right, and what they must score."""
    right = [i % 4 != 3 for i in range(count)]
    return [RIGHT if good else WRONG for good in right], [float(good) for good in right]


def with_our_reward(workers: int) -> Callable[[list[str]], list]:
    reward = make_code_reward(timeout_s=5, workers=workers)
    tests = {"entry_point": ENTRY, "cases": [{"args": [n], "expected": value} for n, value in CASES]}
    return lambda codes: reward(codes, tests=[tests] * len(codes))


def with_pytest(workers: int) -> Callable[[list[str]], list]:
    asserts = "\n".join(f"    assert {ENTRY}({n}) == {value}" for n, value in CASES)

    def one(code: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "test_candidate.py").write_text(f"{code}\n\ndef test_it():\n{asserts}\n", encoding="utf-8")
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_candidate.py"]
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=60, env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
            return float(done.returncode == 0)

    def score(codes: list[str]) -> list:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, codes))

    return score


def with_forks(workers: int) -> Callable[[list[str]], list]:
    """A small server of forks for each worker, as unsandboxed graders have it."""

    def score(codes: list[str]) -> list:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, codes))

    servers = [_fork_server() for _ in range(workers)]
    free = list(servers)

    def one(code: str) -> float:
        to, back = free.pop()
        try:
            data = pickle.dumps(code)
            os.write(to, len(data).to_bytes(4, "big") + data)
            return float(os.read(back, 1) == b"1")
        finally:
            free.append((to, back))

    return score


def _fork_server() -> tuple[int, int]:
    command_read, to = os.pipe()
    back, result_write = os.pipe()
    if os.fork() == 0:
        os.close(to)
        while True:
            head = os.read(command_read, 4)
            if len(head) < 4:
                os._exit(0)
            code = pickle.loads(os.read(command_read, int.from_bytes(head, "big")))
            pid = os.fork()
            if pid == 0:
                space: dict = {}
                try:
                    exec(code, space)
                    good = all(space[ENTRY](n) == value for n, value in CASES)
                except BaseException:
                    good = False
                os._exit(0 if good else 1)
            os.write(result_write, b"1" if os.waitpid(pid, 0)[1] == 0 else b"0")
    os.close(command_read)
    os.close(result_write)
    return to, back


def seconds(score: Callable[[list[str]], list], codes: list[str], wanted: list[float], rounds: int) -> tuple[float, int]:
    """(median seconds for all, wrong verdicts of the last round)."""
    took, wrong = [], 0
    for _ in range(rounds):
        start = time.perf_counter()
        got = score(codes)
        took.append(time.perf_counter() - start)
        wrong = sum(a != b for a, b in zip(got, wanted, strict=True))
    return statistics.median(took), wrong


def with_loops(workers: int, loops: int, timeout_s: float) -> tuple[float, float]:
    """Seconds for a batch with a few endless loops in it, and the bound: timeout x ceil(loops / workers)."""
    reward = make_code_reward(timeout_s=timeout_s, workers=workers)
    tests = {"entry_point": ENTRY, "cases": [{"args": [n], "expected": value} for n, value in CASES]}
    codes, _ = batch(32)
    for i in range(loops):
        codes[5 * i] = f"def {ENTRY}(n):\n    while True:\n        pass\n"
    start = time.perf_counter()
    reward(codes, tests=[tests] * len(codes))
    return time.perf_counter() - start, timeout_s * -(-loops // workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--completions", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    codes, wanted = batch(args.completions)
    forks = with_forks(args.workers)
    opened = time.perf_counter()
    pool = open_pool("auto", Limits(5.0), args.workers)
    opened = time.perf_counter() - opened
    rows = []
    for name, score in (("code reward (sandboxed)", with_our_reward(args.workers)), ("forked workers (unsafe)", forks)):
        score(codes[: args.workers])
        rows.append((name, *seconds(score, codes, wanted, args.rounds)))
    rows.append(("pytest subprocess (unsafe)", *seconds(with_pytest(args.workers), codes, wanted, 1)))
    ours = rows[0][1]
    loop_s, bound_s = with_loops(args.workers, 5, 1.0)
    result = {
        "completions": args.completions,
        "tests": len(CASES),
        "workers": args.workers,
        "backend": repr(pool.backend),
        "open_s": round(opened, 2),
        "rows": [{"name": n, "per_s": round(args.completions / s, 1), "wrong": w, "ours_is_times_as_fast": round(s / ours, 2)} for n, s, w in rows],
        "endless_loops": {"seconds": round(loop_s, 2), "timeout_x_ceil": bound_s},
    }
    if args.json:
        print(json.dumps(result))
        return
    print(
        f"{args.completions} completions x {len(CASES)} tests, {args.workers} workers, {result['backend']} (opened and self-tested in {opened:.1f} s)"
    )
    print(f"{'':<28}{'completions/s':>14}{'wrong':>7}{'ours is x times as fast':>25}")
    for row in result["rows"]:
        print(f"{row['name']:<28}{row['per_s']:>14}{row['wrong']:>7}{row['ours_is_times_as_fast']:>25}")
    print(f"32 completions, 5 of them endless loops, timeout 1 s: {loop_s:.1f} s; timeout x ceil(loops / workers) = {bound_s:.1f} s")


if __name__ == "__main__":
    main()
