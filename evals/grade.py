"""Grades what an agent left: one JSON object on stdout, a line an assertion on stderr; exit 0 all passed, 1 not, 2 a mistake in what was asked.

    python evals/grade.py maths-gate FOLDER --answer ANSWER.txt

ANSWER is the agent's closing message. The reward that the agent wrote is run, on a copy of the folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

EVALS = Path(__file__).resolve().parent
sys.path[:0] = [str(EVALS), str(EVALS.parent / "scripts")]

from graders.task import grade, tasks  # noqa: E402


def main(argv: list[str] | None = None) -> int:
    known = tasks()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("id", choices=known, metavar="ID", help="a task of evals.json")
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder that the agent worked in")
    parser.add_argument("--answer", type=Path, required=True, help="a text file with the agent's closing message")
    args = parser.parse_args(argv)
    for path, there in ((args.folder, args.folder.is_dir()), (args.answer, args.answer.is_file())):
        if not there:
            print(f"error: there is no {path}", file=sys.stderr)
            return 2
    graded = grade(known[args.id], args.folder, args.answer.read_text(encoding="utf-8", errors="replace"))
    for result in graded["assertion_results"]:
        print(f"{'pass' if result['passed'] else 'FAIL'}  {result['text']}\n      {result['evidence']}", file=sys.stderr)
    print(json.dumps(graded))
    return 0 if graded["summary"]["failed"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
