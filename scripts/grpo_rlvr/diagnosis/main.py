"""What `diagnose.py` does with its arguments."""

from __future__ import annotations

import argparse
from pathlib import Path

from grpo_rlvr.cli import say
from grpo_rlvr.diagnosis.readers import NothingYet
from grpo_rlvr.diagnosis.rules import diagnose
from grpo_rlvr.diagnosis.run import in_use, read_run
from grpo_rlvr.diagnosis.texts import rule_tables, summary, terminal
from grpo_rlvr.errors import EXIT_NO, EXIT_YES, Problem, UserError

WATCHED_FORMS = "--watch follows a folder or a .jsonl file that grows"


def run_diagnosis(args: argparse.Namespace) -> tuple[int, dict]:
    """Diagnose and show; returns the exit code and the object for `--json`."""
    if args.rules:
        print(rule_tables(), file=args.out if not args.json else None)
        return EXIT_YES, {"schema": "grpo-rlvr/rules/1", "rules": _rules()}
    _check(args)
    if args.watch:
        from grpo_rlvr.diagnosis.watch import watch

        run, answer = watch(args.run, args.config, args.every)
        say(summary(run, answer))
    else:
        run = read_run(args.run, args.config)
        # A folder that a process trains in right now is live: its age means something.
        run.watched = args.run.is_dir() and in_use(args.run)
        answer = diagnose(run)
        if not run.log.steps and answer.healthy:
            fix = "train first; inspect_rewards.py run and train.py CONFIG --check judge what comes before"
            raise NothingYet("run", Problem(str(args.run), f"nothing is logged here yet ({run.log.kind})", fix))
        if not args.json:
            print(terminal(run, answer, args.all), file=args.out)
    result = {
        "schema": "grpo-rlvr/diagnosis/1", "run": str(args.run), "kind": run.log.kind, "lines": len(run.log.steps), "last_step": run.log.last_step,
        "max_steps": run.max_steps, "finished": run.finished, "unknown_metrics": run.log.unknown, **answer.to_json(),
    }  # fmt: skip
    result |= _pictures(args, run, answer)
    return (EXIT_YES if answer.healthy else EXIT_NO), result


def _check(args: argparse.Namespace) -> None:
    problems = []
    if args.run is None:
        problems.append(Problem("RUN", "is missing", "name a run folder or a log"))
    if args.watch and args.run is not None and args.run.suffix in (".json", ".csv", ".tsv"):
        problems.append(Problem("--watch", f"{args.run.name} is written once", WATCHED_FORMS))
    if not 0 < args.every < 86_400:
        problems.append(Problem("--every", f"got {args.every:g}", "seconds above 0"))
    if problems:
        raise UserError("usage", problems)


def _pictures(args: argparse.Namespace, run, answer) -> dict:
    """Writes what --report and --png ask for; their paths."""
    written = {}
    folder = args.run if args.run.is_dir() else args.run.parent
    if args.report is not None:
        from grpo_rlvr.diagnosis.report import write_report

        written["report"] = str(write_report(run, answer, _place(args.report, folder, "report.html")))
    if args.png is not None:
        from grpo_rlvr.diagnosis.png import write_png

        written["png"] = str(write_png(run, answer, _place(args.png, folder, "report.png")))
    for path in written.values():
        say(f"written: {path}")
    return written


def _place(given: Path, folder: Path, name: str) -> Path:
    return folder / name if given == Path() else given


def _rules() -> list[dict]:
    from grpo_rlvr.diagnosis.rules import RULES

    return [{"name": r.name, "title": r.title, "test": r.test_text, "cause": r.cause, "remedy": r.remedy, "limits": dict(r.limits)} for r in RULES]
