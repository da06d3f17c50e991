#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "jsonschema[format-nongpl]>=4.23",
#   "math-verify>=0.9,<0.10",
#   "pyyaml>=6.0",
#   "rich>=13.7",
# ]
# ///
"""Measures the config's judge against human labels and writes the calibration that the reward `judge` asks for."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the skill's folder stays as it is; cli.parser lifts this for all other packages

from grpo_rlvr import cli  # noqa: E402

EPILOG = """
FILE.jsonl has one JSON object a line:
  "completion"     what was judged: text, or a list of messages
  "prompt"         what it answers: text, or a list of messages
  "label"          "pass" or "fail" ("unsure" is left out), said by a person
  or "sample_id", as the lines of <run.folder>/inspection/labels.jsonl have it

The labels are split by prompt into train (never judged), dev and a sealed test part, which is opened only if dev reaches the floor.
Nothing is written for a judge below the floor (exit 1). Reword the rubric with the train part, then label new samples."""


def build_parser() -> argparse.ArgumentParser:
    examples = [
        "python calibrate_judge.py config.yaml --labels labels.jsonl",
        "python calibrate_judge.py config.yaml --labels run/inspection/labels.jsonl --out judge.json --json",
    ]
    parser = cli.parser("calibrate_judge.py", __doc__, examples)
    parser.epilog = EPILOG.lstrip("\n") + "\n\n" + parser.epilog
    parser.add_argument("config", metavar="CONFIG", help="the config file with one reward `use: judge`")
    parser.add_argument("--labels", metavar="FILE.jsonl", required=True, help="what people said")
    parser.add_argument("--out", metavar="FILE.json", help="where to write (default: the file that args.calibration of the judge names)")
    parser.add_argument("--floor", type=float, default=0.85, help="the least TPR and TNR (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the split (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser


def body(args: argparse.Namespace) -> tuple[int, dict]:
    from grpo_rlvr.packages import LIGHT, need

    need(LIGHT, "calibration")
    from grpo_rlvr.config import load_config
    from grpo_rlvr.inspection.judge_labels import calibrate_from_config

    result = calibrate_from_config(load_config(args.config), Path(args.labels), Path(args.out) if args.out else None, args.floor, args.seed)
    for part in ("dev", "test"):
        for rate, meaning in (("tpr", "right ones passed"), ("tnr", "wrong ones failed")):
            k, n, share, low, high = (result[part][rate][key] for key in ("k", "n", "share", "low", "high"))
            cli.say(f"{part:4}  {rate.upper()}  {share:.2f}  95% {low:.2f} to {high:.2f}  ({meaning}: {k} of {n})")
    cli.say(f"the judge may be used: {result['file']}")
    return 0, result


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    return cli.run(body, args)


if __name__ == "__main__":
    sys.exit(main())
