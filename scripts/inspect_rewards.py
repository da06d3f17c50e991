#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "accelerate>=1.12",
#   "datasets>=4.7",
#   "jsonschema[format-nongpl]>=4.23",
#   "math-verify>=0.9,<0.10",
#   "peft>=0.18",
#   "pyyaml>=6.0",
#   "rich>=13.7",
#   "torch>=2.9",
#   "transformers>=5.10,<5.18",
#   "trl>=1.16,<1.17",
# ]
# ///
"""Look at rewards before training: run (sample, score, attack), review (a person reads), gate (may training start)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the skill's folder stays as it is; cli.parser lifts this for all other packages

from grpo_rlvr import cli  # noqa: E402

# The format of --completions, here and not imported: help must come at once.
EPILOG = """
run: draws completions with the training's own sampling settings, scores them, attacks the rewards, measures the signal and selects what
     to read. Everything is kept in <run.folder>/inspection; a second run goes on where the first stopped or only scores anew.
     Exit 0 if there is something to learn and no probe found a fault, else 1.
     With --from-run it reads what a run in progress writes (from the tables of grpo.log_completions: true) and compares it with the first
     inspection; kept in inspection/steps/<step>. Exit 0 if nothing speaks against the reward, else 1.
review: shows the selected samples one by one, scores hidden until you have judged, on a page that only this machine and only its address
     opens; --terminal reads in this terminal, --static writes one file to read elsewhere. Ctrl-C ends it; every label is already saved.
gate: compares labels and rewards and writes gate.json, which train.py asks for. Exit 0 open, 1 shut. --labels FILE first takes in labels
     that were downloaded from a static page.

--backend says what draws the completions (else inspection.backend of the config; else what drew those that are there; else vllm where
     grpo.use_vllm is set and vllm is installed; else transformers):
  transformers    loads the model as training does
  vllm            loads it into vLLM's offline engine
  openai          asks the server of inspection.server, such as a running `vllm serve`; its answers are kept as they come

--completions takes recorded completions instead of sampling (no torch needed): FILE.parquet with these columns, a completion table that TRL
wrote (grpo.log_completions: true), or FILE.jsonl with one JSON object a line:
  "completion"    what the model wrote: text, or a list of messages (needed)
  "prompt_index"  number of the training row it answers, from 0; or
  COLUMN          with --match COLUMN: the row of data.train that has this value there (each value once; 12 and "12" are equal); or
  "prompt"        the prompt itself; without gold columns in the line, those of the training row with this prompt are taken
  "finish"        "stop", "length" or "unknown" (if left out);  "tokens"  its length, if known;  "step"  of the run that wrote it, if any
  any other key   a gold column, used instead of the training row's"""


def build_parser() -> argparse.ArgumentParser:
    examples = [
        "python inspect_rewards.py run config.yaml",
        "python inspect_rewards.py run config.yaml --completions recorded.jsonl --json",
        "python inspect_rewards.py run config.yaml --backend vllm --keep-band 0.2 0.8",
        "python inspect_rewards.py run config.yaml --from-run runs/grpo --step latest",
        "python inspect_rewards.py review config.yaml --reviewer ada",
        "python inspect_rewards.py review config.yaml --static review.html",
        "python inspect_rewards.py gate config.yaml",
    ]
    parser = cli.parser("inspect_rewards.py", __doc__, examples)
    parser.epilog = EPILOG.lstrip("\n") + "\n\n" + parser.epilog
    commands = parser.add_subparsers(dest="command", required=True, metavar="{run,review,gate}")
    run = commands.add_parser("run", help="sample, score, attack the rewards, measure the signal, select what to read")
    run.add_argument("--completions", metavar="FILE", help="recorded completions in the place of sampling (format: inspect_rewards.py --help)")
    run.add_argument("--match", metavar="COLUMN", help="with --completions: the column, in the file and in the data, that names a line's data row")
    run.add_argument("--backend", choices=("transformers", "vllm", "openai"), help="what draws the completions")
    run.add_argument("--redraw", action="store_true", help="set samples that were recorded, or that another backend drew, aside, and draw new ones")
    run.add_argument("--keep-band", nargs=2, type=float, metavar=("LOW", "HIGH"), help="write the training rows whose success rate is within")
    run.add_argument(
        "--band-file", metavar="FILE.jsonl", help="where --keep-band writes (default: train.band-LOW-HIGH.jsonl in the inspection folder)"
    )
    run.add_argument("--from-run", metavar="RUN", help="compare what a run in progress writes with the first inspection; RUN: its run folder")
    run.add_argument("--step", metavar="N", help="with --from-run: latest (if left out), or the step of a table")
    review = commands.add_parser("review", help="read the selected samples in a browser or in this terminal")
    review.add_argument("--reviewer", help="your name, kept with each label (default: the login name); a second name is a second reader")
    review.add_argument("--step", metavar="N", help="read what `run --from-run` selected from that step of a run, or from the `latest`")
    way = review.add_mutually_exclusive_group()
    way.add_argument("--terminal", action="store_true", help="read in this terminal instead of a browser")
    way.add_argument(
        "--static", metavar="FILE.html", help="write one page with the samples inside, to be opened anywhere; labels are downloaded from it"
    )
    way.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any free one)")
    gate = commands.add_parser("gate", help="decide whether training may start")
    gate.add_argument("--labels", metavar="FILE.jsonl", help="labels downloaded from a static page, to be taken in first")
    for command in (run, review, gate):
        command.add_argument("config", metavar="CONFIG", help="the config file, e.g. config.yaml")
        command.add_argument("--json", action="store_true", help="one JSON object on stdout")
        command.epilog = cli.EXIT_CODES
    return parser


def body(args: argparse.Namespace) -> tuple[int, dict]:
    from grpo_rlvr.packages import LIGHT, need

    need(LIGHT, "inspection")
    return {"run": run, "review": review, "gate": gate}[args.command](args)


def run(args: argparse.Namespace) -> tuple[int, dict]:
    from grpo_rlvr.config import load_config
    from grpo_rlvr.inspection.run import run_inspection

    _check_run(args)
    if args.from_run:
        from grpo_rlvr.inspection.step import run_step

        result = run_step(load_config(args.config), Path(args.from_run), args.step or "latest")
        return (1 if result["found"] else 0), result
    result = run_inspection(
        load_config(args.config),
        completions=args.completions,
        match=args.match,
        backend=args.backend,
        redraw=args.redraw,
        keep_band=args.keep_band,
        band_file=args.band_file,
    )
    return (0 if result["go"] else 1), result


def _check_run(args: argparse.Namespace) -> None:
    """Options that exclude one another, all at once."""
    from grpo_rlvr.errors import Problem, UserError

    def given(*names: str) -> list[str]:
        return [f"--{n.replace('_', '-')}" for n in names if getattr(args, n)]

    problems = [
        Problem(f, "--from-run reads the run's own completions", "leave it out")
        for f in given("completions", "match", "backend", "redraw", "keep_band")
    ]
    problems = problems if args.from_run else [Problem(f, "it goes with --from-run", "name the run: --from-run RUN") for f in given("step")]
    if args.completions:
        problems += [Problem(f, "--completions takes the place of sampling", "leave one of the two out") for f in given("backend", "redraw")]
    elif args.match and not args.from_run:
        problems.append(Problem("--match", "it goes with --completions", "name the file: --completions FILE"))
    if args.band_file and not args.keep_band:
        problems.append(Problem("--band-file", "it goes with --keep-band", "say which: --keep-band 0.2 0.8"))
    if problems:
        raise UserError("usage", problems)


def review(args: argparse.Namespace) -> tuple[int, dict]:
    from grpo_rlvr.config import load_config

    config = load_config(args.config)
    if args.static:
        from grpo_rlvr.inspection.serve import write_static

        return 0, write_static(config, args.static, args.reviewer or "", args.step)
    reviewer = _login_name() if args.reviewer is None else args.reviewer
    if args.terminal:
        from grpo_rlvr.inspection.review import review as read

        return 0, read(config, reviewer, args.step)
    from grpo_rlvr.inspection.serve import serve

    return 0, serve(config, reviewer, args.port, args.step)


def _login_name() -> str:
    import getpass

    from grpo_rlvr.errors import Problem, UserError

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise UserError("review", Problem("--reviewer", "this user has no login name", "say who reads: --reviewer NAME")) from None


def gate(args: argparse.Namespace) -> tuple[int, dict]:
    from grpo_rlvr.config import load_config
    from grpo_rlvr.inspection import report
    from grpo_rlvr.inspection.gate import decide_gate

    config = load_config(args.config)
    imported = _import(config, args.labels) if args.labels else {}
    result = decide_gate(config)
    report.show_gate(result)
    result |= imported
    return (0 if result["open"] else 1), result


def _import(config, file: str) -> dict:
    from pathlib import Path

    from grpo_rlvr.inspection.imported import import_labels
    from grpo_rlvr.inspection.samples import load_samples

    counts = import_labels(config.inspection_folder, Path(file), load_samples(config.inspection_folder))
    cli.say(f"labels taken in: {counts['added']}; there already: {counts['known']}; older than what the reader said since: {counts['outdated']}")
    return {"imported": counts}


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    return cli.run(body, args)


if __name__ == "__main__":
    sys.exit(main())
