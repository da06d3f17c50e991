"""Does an agent open the skill when it should, and only then: the queries of triggers.json."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from agent import run_agent
from grpo_rlvr.cli import write_text
from prepare import SKILL_NAME, install_skill

QUERIES = Path(__file__).resolve().parent / "triggers.json"
# What an agent prints when it opens the skill: the path of the file, or the name as a tool's argument. An agent that prints only its closing
# message must be told to print what it does, e.g. `--output-format stream-json --verbose`.
MARK = rf"{SKILL_NAME}/SKILL\.md|\"skill\": ?\"{SKILL_NAME}\""


def run(args: argparse.Namespace) -> int:
    """Ask each query `args.repeats` times; a query triggers if at least half of its runs open the skill."""
    queries = json.loads(QUERIES.read_text(encoding="utf-8"))
    results, finished = [], True
    for number, entry in enumerate(queries):
        opened = []
        for repeat in range(1, args.repeats + 1):
            place = args.out / "triggers" / f"{number:02d}" / str(repeat)
            record = place / "opened.json"
            if not record.is_file() or args.again:
                shutil.rmtree(place, ignore_errors=True)
                with tempfile.TemporaryDirectory() as folder:
                    install_skill(Path(folder) / args.skill_folder / SKILL_NAME)
                    ran = run_agent(args.agent_command, Path(folder), entry["query"], place, args.timeout_s, args.python)
                output = "".join((place / name).read_text(encoding="utf-8", errors="replace") for name in ("stdout.txt", "stderr.txt"))
                write_text(record, json.dumps({"status": ran["status"], "opened": bool(re.search(args.triggered_by, output))}))
            answer = json.loads(record.read_text(encoding="utf-8"))
            opened.append(answer["opened"])
            finished &= answer["status"] == "done"
        rate = sum(opened) / len(opened)
        results.append({**entry, "trigger_rate": rate, "pass": (rate >= 0.5) == entry["should_trigger"]})
        print(f"{'pass' if results[-1]['pass'] else 'FAIL'}  {rate:.0%}  {entry['query'][:100]}", file=sys.stderr, flush=True)
    summary = {"passed": sum(r["pass"] for r in results), "total": len(results)}
    write_text(args.out / "triggers.json", json.dumps({"summary": summary, "results": results}, indent=1) + "\n")
    print(f"{summary['passed']} of {summary['total']} queries as they should be")
    return 0 if finished else 1
