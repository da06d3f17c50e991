#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "pyyaml>=6.0",
# ]
# ///
"""What a run is doing, from its log: symptoms in the order to check them, with evidence and the settings to change."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the skill's folder stays as it is; cli.parser lifts this for all other packages

from grpo_rlvr import cli  # noqa: E402

EPILOG = """
RUN is a run folder, TRL's output_dir, trainer_state.json, a .jsonl with a line a step, a TensorBoard folder, W&B's .wandb file or its folder,
Trackio's .db, or a CSV export of W&B or Trackio; names of older TRL releases are understood. Exit 0: healthy; 1: a symptom. No torch, no
network, no GPU needed."""


def build_parser() -> argparse.ArgumentParser:
    examples = [
        "diagnose.py runs/grpo                       what the run does, in one page",
        "diagnose.py runs/grpo --watch               follow it; rings once for each new symptom, keeps runs/grpo/status.md",
        "diagnose.py runs/grpo --report              a page with curves: runs/grpo/report.html",
        "diagnose.py out/checkpoint-500/trainer_state.json --config config.yaml",
        "diagnose.py wandb_export.csv --json",
    ]
    parser = cli.parser("diagnose.py", __doc__, examples)
    parser.epilog = EPILOG.lstrip("\n") + "\n\n" + parser.epilog
    parser.add_argument("run", metavar="RUN", type=Path, nargs="?", help="the run, see below")
    parser.add_argument("--config", type=Path, metavar="FILE", help="config.yaml of the run, where its folder has none: patches then get numbers")
    parser.add_argument("--all", action="store_true", help="also list the rules that were not checked, and unknown metrics")
    parser.add_argument("--watch", action="store_true", help="follow a live run until it is over")
    parser.add_argument("--every", type=float, default=20.0, metavar="SECONDS", help="how often --watch looks (20)")
    parser.add_argument("--report", type=Path, nargs="?", const=Path(), metavar="FILE", help="write a page with curves (RUN/report.html)")
    parser.add_argument("--png", type=Path, nargs="?", const=Path(), metavar="FILE", help="draw the curves with matplotlib (RUN/report.png)")
    parser.add_argument("--rules", action="store_true", help="print the table of rules and go")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser


def body(args: argparse.Namespace) -> tuple[int, dict]:
    from grpo_rlvr.diagnosis.main import run_diagnosis

    return run_diagnosis(args)


if __name__ == "__main__":
    arguments = build_parser().parse_args()
    arguments.out = sys.stdout
    sys.exit(cli.run(body, arguments))
