"""Scores the attack corpus and prints what each program got; run as a script so that it can give up its rights first.

python judge_corpus.py [--user NUMBER] [--fresh] [--only NAME,NAME] [--bare]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

ATTACKS = Path(__file__).parent / "attacks"
FOLDERS = ("", "io", "asserts")
# Time of a test: for honest programs, for others, and for those that may run until they are stopped.
HONEST_S, OTHER_S, ENDLESS_S = 6.0, 2.0, 0.6


def corpus(folder: str) -> dict:
    return json.loads((ATTACKS / folder / "expect.json").read_text(encoding="utf-8"))


def program(folder: str, name: str) -> str:
    return (ATTACKS / folder / name).read_bytes().decode("utf-8", "surrogateescape")


def time_of(file: dict) -> float:
    return ENDLESS_S if file.get("timeout") else HONEST_S if file["score"] == 1.0 else OTHER_S


def judge(only: set[str] | None, fresh: bool, bare: bool = False) -> dict[str, list]:
    """name -> [score, expected score] of each program; those that tell only at the second time are judged twice.

    Args:
        bare: only programs whose tests are asserts and nothing else, and these without the object around them.
    """
    from grpo_rlvr.rewards import make_code_reward
    from grpo_rlvr.sandbox import backends, opening

    if fresh:
        opening._backends["bubblewrap", None, backends.IMAGE] = backends.Bubblewrap(server=False)
    rewards = {timeout_s: make_code_reward("bubblewrap", timeout_s, workers=2) for timeout_s in (HONEST_S, OTHER_S, ENDLESS_S)}
    results = {}
    for folder in FOLDERS:
        expect = corpus(folder)
        if bare:
            expect["tests"] = {name: tests["asserts"] for name, tests in expect["tests"].items() if set(tests) == {"asserts"}}
            expect["files"] = {name: file for name, file in expect["files"].items() if file["tests"] in expect["tests"]}
        for timeout_s, reward in rewards.items():
            files = {n: f for n, f in expect["files"].items() if time_of(f) == timeout_s and (only is None or f"{folder}/{n}" in only)}
            names = [*files, *(name for name, file in files.items() if file.get("twice"))]
            texts = [program(folder, name) for name in names]
            scores = reward(texts, tests=[expect["tests"][files[name]["tests"]] for name in names]) if names else []
            for name, score in zip(names, scores, strict=True):
                results[f"{folder}/{name}"] = [score, files[name]["score"]]
        assert not any(reward.faults for reward in rewards.values()), [reward.faults for reward in rewards.values()]
    return results


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--user", type=int)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--bare", action="store_true")
    args = parser.parse_args()
    from grpo_rlvr.rewards import make_code_reward  # noqa: F401  all imports while the rights are there
    from grpo_rlvr.sandbox import process

    process.sources()
    if args.user is not None:
        os.setgroups([])
        os.setgid(args.user)
        os.setuid(args.user)
        os.environ["HOME"] = "/"
    results = judge(set(args.only.split(",")) if args.only else None, args.fresh, args.bare)
    print(json.dumps({"uid": os.getuid(), "results": results}))


if __name__ == "__main__":
    main()
