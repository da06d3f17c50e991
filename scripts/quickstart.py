#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "accelerate>=1.12",
#   "datasets>=4.7",
#   "gguf>=0.17",
#   "jsonschema[format-nongpl]>=4.23",
#   "math-verify>=0.9,<0.10",
#   "peft>=0.18",
#   "pyyaml>=6.0",
#   "rich>=13.7",
#   "sentencepiece>=0.2",
#   "torch>=2.9",
#   "transformers>=5.10,<5.18",
#   "trl>=1.16,<1.17",
# ]
# ///
"""The whole loop on this machine's CPU: sample, score, signal, gate, train, before and after."""

import argparse
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the skill's folder stays as it is; cli.parser lifts this for all other packages

from grpo_rlvr import cli  # noqa: E402


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser("quickstart.py", "The whole loop on this machine's CPU, with a model and a task that come along.", [
        "quickstart.py                         a tiny model, taught on the spot (about a minute)",
        "quickstart.py --model smollm2         SmolLM2-135M-Instruct, really pretrained (some minutes, 8 GB of memory)",
        "quickstart.py --scenario careless     a reward with a hole: the gate stays shut and shows it",
        "quickstart.py --scenario never        a model that never succeeds: SFT first",
    ])  # fmt: skip
    parser.add_argument("--model", choices=("tiny", "smollm2"), default="tiny")
    parser.add_argument("--scenario", choices=("learn", "careless", "never"), default="learn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="training steps (default: 80 for tiny, 8 for smollm2)")
    parser.add_argument("--folder", type=Path, help="a new folder for the project (default: runs/quickstart/<model>-<scenario>-<time>)")
    parser.add_argument("--threads", type=int, help="CPU threads (default: 1 for tiny, all cores for smollm2)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser


def main() -> int:
    args = build_parser().parse_args()
    threads = args.threads or (1 if args.model == "tiny" else min(8, os.cpu_count() or 1))
    # Must stand before torch is imported. Threads that spin while they wait cost several times over on a busy machine.
    os.environ.update({"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"})
    os.environ.update({"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"})
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

    def body(args):
        from grpo_rlvr.demo.loop import run_loop

        return run_loop(args.model, args.scenario, args.seed, args.steps, args.folder)

    return cli.run(body, args)


if __name__ == "__main__":
    sys.exit(main())
