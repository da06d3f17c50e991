#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "jsonschema[format-nongpl]>=4.23",
#   "pyyaml>=6.0",
#   "rich>=13.7",
# ]
# ///
"""Can this machine run it? Driver, GPUs, memory, disk, packages that fit together, isolation, cache and hub; with CONFIG, what that run needs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the skill's folder stays as it is; cli.parser lifts this for all other packages

from grpo_rlvr import cli  # noqa: E402

EPILOG = """
ready and ready-with-warnings are exit 0 (with --strict, warnings are exit 1). blocked is exit 3: something is missing on this machine, and each
line says how to get it; or exit 1 where all is here and CONFIG's run does not fit into the GPU's memory. A mistake in CONFIG is exit 2.
With CONFIG the report goes to env-report.json of its run folder; else it is written only with --out. Nothing is installed or downloaded."""


def build_parser() -> argparse.ArgumentParser:
    examples = [
        "python check_environment.py",
        "python check_environment.py config.yaml",
        "python check_environment.py config.yaml --strict --json",
        "python check_environment.py --no-hub --out env-report.json",
    ]
    parser = cli.parser("check_environment.py", __doc__, examples)
    parser.epilog = EPILOG.lstrip("\n") + "\n\n" + parser.epilog
    parser.add_argument("config", metavar="CONFIG", nargs="?", help="the config file, e.g. config.yaml")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the report there")
    parser.add_argument("--no-hub", action="store_true", help="do not ask whether the model hub answers")
    parser.add_argument("--strict", action="store_true", help="exit 1 for ready-with-warnings")
    parser.add_argument("--width", type=int, metavar="N", help="columns of the output (default: the terminal's)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser


def body(args: argparse.Namespace) -> tuple[int, dict]:
    from grpo_rlvr.errors import MissingError, Problem
    from grpo_rlvr.packages import need

    if sys.version_info < (3, 11):  # noqa: UP036
        raise MissingError("missing", Problem("python", f"this is Python {sys.version.split()[0]}", "use Python 3.11 or newer"))
    need({"yaml": "pyyaml", "jsonschema": "jsonschema"}, "checking the environment")
    from grpo_rlvr.env_report import NAME, write_part
    from grpo_rlvr.environment.check import exit_code
    from grpo_rlvr.environment.survey import page, report, survey

    config = None
    if args.config:
        from grpo_rlvr.config import load_config

        config = load_config(args.config)
    platform, checks = survey(config, ask_hub=not args.no_hub)
    result = report(checks, platform)
    if not args.json:
        import os
        import shutil

        width = args.width or shutil.get_terminal_size((80, 24)).columns
        colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        cli.say(page(checks, width, colour), coloured=colour)
    path = args.out or (config.run_folder / NAME if config else None)
    # A run folder that cannot be written is one of the findings.
    if path and not (args.out is None and any(c.name == "run-folder" and c.status == "blocked" for c in checks)):
        write_part(path, "environment", result)
        cli.say(f"written to {path}")
    return exit_code(checks, args.strict), {"schema": "grpo-rlvr/env-report/1", **result}


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    return cli.run(body, args)


if __name__ == "__main__":
    sys.exit(main())
