#!/usr/bin/env python3
"""Where an inspection's time goes at two sizes, four times apart: a growth near 4 is linear. No model: the completions are made up.

`draw` is the path of sampling (ids, file, order) with a backend that answers at once, in another order than it was asked.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from grpo_rlvr.config import Config, load_config
from grpo_rlvr.data import load_rows
from grpo_rlvr.inspection import sampling
from grpo_rlvr.inspection.backends.backend import Batch, Drawn
from grpo_rlvr.inspection.growth import compare
from grpo_rlvr.inspection.recorded import import_recorded
from grpo_rlvr.inspection.samples import load_samples
from grpo_rlvr.inspection.scores import load_scores, save_scores, score_samples, scores_header
from grpo_rlvr.inspection.select import select_samples
from grpo_rlvr.inspection.sides import Side
from grpo_rlvr.inspection.signal import signal_of
from grpo_rlvr.rewards import build_rewards

GROUP, WORDS = 8, 300
VOCABULARY = ["so", "then", "next", "we", "add", "carry", "the", "number", "of", "apples", "is"]
CONFIG = """\
model: {name_or_path: org/model}
data: {train: train.jsonl}
rewards:
  - {use: exact}
  - {use: format, weight: 0.2}
inspection: {read: 100}
grpo: {num_generations: 8}
run: {folder: run}
"""


def write_project(folder: Path, count: int) -> None:
    """`count` completions of 300 words, eight of each prompt, two in five of them right."""
    rng = random.Random(0)
    prompts = [json.dumps({"prompt": [{"role": "user", "content": f"{i}+5=? {'x' * 200}"}], "answer": str(i + 5)}) for i in range(count // GROUP)]
    (folder / "train.jsonl").write_text("\n".join(prompts) + "\n", encoding="utf-8")
    lines = [{"prompt_index": i // GROUP, "completion": completion(rng, i // GROUP + 5), "finish": "stop", "tokens": WORDS} for i in range(count)]
    (folder / "recorded.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")


def completion(rng: random.Random, right: int) -> str:
    answer = right if rng.random() < 0.4 else right + 1 + rng.randrange(100)
    return f"<reasoning>{' '.join(rng.choice(VOCABULARY) for _ in range(WORDS))}</reasoning><answer>{answer}</answer>"


class AtOnce:
    """A backend without a model."""

    batch_size = GROUP

    def __enter__(self) -> AtOnce:
        return self

    def __exit__(self, *exc_info) -> None:
        pass

    def draw(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, list[Drawn]]]:
        rng = random.Random(0)
        for start in range(0, len(batches), 16):
            for batch in reversed(batches[start : start + 16]):
                yield batch, [Drawn([{"role": "assistant", "content": completion(rng, 5)}], "stop", WORDS) for _ in batch.prompts]


def draw(config: Config, rows: list[dict]) -> None:
    wide = dataclasses.replace(
        config, inspection=dataclasses.replace(config.inspection, prompts=len(rows)), run=dataclasses.replace(config.run, folder="drawn")
    )
    sampling.open_backend = lambda *args, **kwargs: AtOnce()
    sampling.draw_samples(wide, rows, quiet=True)


def measure(count: int) -> dict[str, float]:
    """Seconds of each part."""
    seconds: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        value = call()
        seconds[name] = time.perf_counter() - start
        return value

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_project(folder, count)
        config = load_config(folder / "config.yaml")
        rewards, rows = build_rewards(config), load_rows(config, "train")
        timed("draw", lambda: draw(config, rows))
        timed("import", lambda: import_recorded(folder / "recorded.jsonl", config, rewards, rows))
        samples = timed("load", lambda: load_samples(config.inspection_folder))
        scores, _ = timed("score", lambda: score_samples(rewards, samples, 0.5))
        timed("save scores", lambda: save_scores(config.inspection_folder, scores_header(config, rewards, samples), scores))
        timed("load scores", lambda: load_scores(config.inspection_folder, config, rewards, samples))
        timed("signal", lambda: signal_of(samples, scores, 8))
        verdicts = [row["verdict"] for row in scores]
        timed("select", lambda: select_samples(samples, verdicts, 100, 0))
        side = Side(samples, scores)
        timed("compare", lambda: compare(side, side, rewards, {}))
    return seconds


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="completions of the larger size (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="the numbers as one JSON object on stdout")
    args = parser.parse_args(argv)
    measure(80)  # imports and first calls
    small, large = measure(args.count // 32 * 8), measure(args.count // 32 * 32)
    parts = {name: {"seconds": round(large[name], 3), "growth": round(large[name] / small[name], 1)} for name in large}
    result = {"schema": "grpo-rlvr/inspection-benchmark/1", "completions": args.count, "parts": parts, "seconds": round(sum(large.values()), 2)}
    if args.json:
        print(json.dumps(result))
    else:
        for name, part in parts.items():
            print(f"{name:12} {part['seconds']:8.3f} s   growth {part['growth']:.1f}", file=sys.stderr)
        print(f"{'all':12} {result['seconds']:8.3f} s for {args.count:,} completions", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
