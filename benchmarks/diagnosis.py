"""How long diagnosis takes: reading and judging a log of N lines, against json.loads alone on the same lines, in one run: CPU seconds.

python benchmarks/diagnosis.py [LINES]
"""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from grpo_rlvr.diagnosis.report import page
from grpo_rlvr.diagnosis.rules import diagnose
from grpo_rlvr.diagnosis.run import read_run

NAMES = (
    "loss", "grad_norm", "reward_std", "entropy", "completions/mean_length", "completions/min_length", "completions/max_length", "num_tokens",
    "completions/mean_terminated_length", "rewards/exact/mean", "rewards/exact/std", "rewards/format/mean", "rewards/format/std", "step_time",
    "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean", "completions/clipped_ratio", "mem_gb", "kl",
)  # fmt: skip


def lines(count: int) -> list[str]:
    rng = random.Random(0)
    made = []
    for i in range(count):
        row = {"step": i + 1, "lr": 1e-6, **{name: rng.random() for name in NAMES}}
        row |= {"reward": 0.8 * (1 - math.exp(-5 * i / count)) + 0.05 * rng.random(), "frac_reward_zero_std": 0.2 * rng.random()}
        row |= {"temp_c": None, "reward_seconds": {"exact": 0.01, "format": 0.002}}
        made.append(json.dumps(row) + "\n")
    return made


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "progress.jsonl"
        path.write_text("".join(lines(count)), encoding="utf-8")
        began = time.process_time()
        with open(path, "rb") as file:
            for line in file:
                json.loads(line)
        parsed = time.process_time() - began
        began = time.process_time()
        run = read_run(path)
        read = time.process_time() - began
        answer = diagnose(run)
        judged = time.process_time() - began - read
        text = page(run, answer)
        drawn = time.process_time() - began - read - judged
    print(f"{count} lines, {path.name}: json.loads alone {parsed:.2f} s; read {read:.2f} s ({read / parsed:.1f}x); rules {judged:.2f} s;"
          f" page {drawn:.2f} s, {len(text) / 1e3:.0f} kB")  # fmt: skip


if __name__ == "__main__":
    main()
