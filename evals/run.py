"""Runs the tasks through any agent with a command line, with and without the skill, and grades them.

    python evals/run.py --agent-command 'claude -p "$(cat {prompt_file})"' --skill-folder .claude/skills --out ~/grpo-evals
    python evals/run.py --agent-command 'codex exec - < {prompt_file} > {answer_file}' --out ~/grpo-evals --only maths-gate hacked-run
    python evals/run.py --agent-command '...' --out ~/grpo-evals --triggers

What is graded stays: the same command goes on where it was stopped. Exit 0 all is graded, 1 some agent failed or ran out of time, 2 a mistake.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

EVALS = Path(__file__).resolve().parent
sys.path[:0] = [str(EVALS), str(EVALS.parent / "scripts")]

import triggers  # noqa: E402
from agent import HELP, run_agent  # noqa: E402
from graders.task import grade, tasks  # noqa: E402
from grpo_rlvr.cli import write_text  # noqa: E402
from prepare import SKILL_FOLDER, prepare  # noqa: E402

CONDITIONS = ("with_skill", "without_skill")


def run_one(args: argparse.Namespace, task: dict, condition: str, number: int) -> dict:
    """One task, once: from the record where it is there, else by the agent."""
    place = args.out / task["id"] / condition / str(number)
    record = place / "grading.json"
    if record.is_file() and not args.again:
        return json.loads(record.read_text(encoding="utf-8"))
    if place.exists():  # cut short, or asked for again
        shutil.rmtree(place)
    work = place / "work"
    prepare(task, work, args.skill_folder if condition == "with_skill" else None)
    ran = run_agent(args.agent_command, work, task["prompt"], place, args.timeout_s, args.python)
    graded = grade(task, work, ran.pop("answer"))
    graded = {"id": task["id"], "condition": condition, "repeat": number, **ran, **graded}
    write_text(record, json.dumps(graded, indent=1) + "\n")
    return graded


def summarize(runs: list[dict]) -> dict:
    """Mean pass rate, share of runs with every assertion passed, and mean seconds, by condition and by task."""

    def of(some: list[dict]) -> dict:
        n = len(some)
        return {
            "runs": n,
            "pass_rate": sum(r["summary"]["pass_rate"] for r in some) / n,
            "all_passed": sum(r["summary"]["failed"] == 0 for r in some) / n,
            "seconds": sum(r["seconds"] for r in some) / n,
        }

    conditions = [c for c in CONDITIONS if any(r["condition"] == c for r in runs)]
    ids = dict.fromkeys(r["id"] for r in runs)
    return {
        "by_condition": {c: of([r for r in runs if r["condition"] == c]) for c in conditions},
        "by_task": {i: {c: of(some) for c in conditions if (some := [r for r in runs if r["id"] == i and r["condition"] == c])} for i in ids},
    }


def table(summary: dict) -> str:
    """The benchmark as a Markdown table."""
    conditions = list(summary["by_condition"])
    lines = ["| task | " + " | ".join(f"{c.replace('_', ' ')}: assertions passed | all passed | s" for c in conditions) + " |"]
    lines.append("|---" * (1 + 3 * len(conditions)) + "|")
    for name, row in [*summary["by_task"].items(), ("all", summary["by_condition"])]:
        cells = [f"{row[c]['pass_rate']:.0%} | {row[c]['all_passed']:.0%} | {row[c]['seconds']:.0f}" if c in row else " | | " for c in conditions]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def build_parser() -> argparse.ArgumentParser:
    known = tasks()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent-command", required=True, help=HELP)
    parser.add_argument("--out", type=Path, required=True, help="a folder outside this project, where the agent cannot find the graders")
    parser.add_argument("--only", nargs="+", choices=known, metavar="ID", help=f"some of: {', '.join(known)}")
    parser.add_argument("--conditions", nargs="+", choices=CONDITIONS, default=list(CONDITIONS))
    parser.add_argument("--repeats", type=int, default=1, metavar="N", help="runs of each task (default: 1)")
    parser.add_argument("--timeout-s", type=float, default=1800, help="limit of one run (default: 1800)")
    parser.add_argument("--again", action="store_true", help="run also what is graded already")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter with the skill's packages, put first on the agent's PATH (default: this one)"
    )
    parser.add_argument("--skill-folder", default=SKILL_FOLDER, help="where the agent looks for skills (default: %(default)s)")
    parser.add_argument("--triggers", action="store_true", help="ask the queries of triggers.json instead of running the tasks")
    parser.add_argument(
        "--triggered-by", default=triggers.MARK, metavar="REGEX", help="found in the agent's output when it opened the skill (%(default)s)"
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    parser = build_parser()
    args = parser.parse_args(argv)
    args.out = args.out.expanduser().absolute()
    if args.out.resolve().is_relative_to(EVALS.parent):
        parser.error(f"--out {args.out} lies in this project, where an agent would find the graders; choose a folder outside")
    if args.repeats < 1:
        parser.error(f"--repeats is at least 1; got {args.repeats}")
    if args.triggers:
        return triggers.run(args)
    runs, known = [], tasks()
    for name in args.only or known:
        for condition in args.conditions:
            for number in range(1, args.repeats + 1):
                runs.append(run_one(args, known[name], condition, number))
                last = runs[-1]["summary"]
                print(f"{name} {condition} {number}: {last['passed']} of {last['total']} ({runs[-1]['status']})", file=sys.stderr, flush=True)
    summary = summarize(runs)
    result = {"skill_name": "grpo-rlvr-training", "agent_command": args.agent_command, "summary": summary, "runs": runs}
    write_text(args.out / "results.json", json.dumps(result, indent=1) + "\n")
    write_text(args.out / "benchmark.md", table(summary) + "\n")
    print(table(summary))
    return 0 if all(run["status"] == "done" for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
