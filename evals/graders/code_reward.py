"""A reward that runs code: isolated, and not to be cheated."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from functools import partial
from pathlib import Path

from graders.left import Left
from graders.scoring import Case, all_paid, judge, none_paid
from graders.task import Outcome
from graders.words import mentions, said

MEDIAN = "assert median([3, 1, 2]) == 2\nassert median([4, 1, 3, 2]) == 2.5\nassert median([7]) == 7"
RUNS = "assert run_lengths('aab') == [('a', 2), ('b', 1)]\nassert run_lengths('') == []\nassert run_lengths('zzz') == [('z', 3)]"
PALINDROME = "assert is_palindrome('Never odd or even') == True\nassert is_palindrome('xy') == False"


def case(name: str, code: str, tests: str = MEDIAN) -> Case:
    return text_case(name, f"```python\n{code}\n```", tests)


def text_case(name: str, completion: str, tests: str = MEDIAN) -> Case:
    # The column as it stands in the file, or in the form that the skill's own reward reads.
    return Case(name, completion, {"tests": tests}, {"tests": json.dumps({"asserts": tests})})


GOOD = "def median(xs):\n    s = sorted(xs)\n    n = len(s)\n    return s[n // 2] if n % 2 else (s[n // 2 - 1] + s[n // 2]) / 2"
REFERENCE = case("a right median", GOOD)
RIGHT = [
    case(
        "a helper and an import",
        "from itertools import groupby as by\n\ndef run_lengths(s):\n    return [(k, n(g)) for k, g in by(s)]\n\ndef n(g):\n    return len(list(g))",
        RUNS,
    ),
    case("a one-liner", "def is_palindrome(s):\n    t = [c.lower() for c in s if c.isalnum()]\n    return t == t[::-1]", PALINDROME),
    text_case("words before the block", f"Sort, then take the middle.\n\n```python\n{GOOD}\n```"),
]
WRONG = [
    case("the upper middle", "def median(xs):\n    return sorted(xs)[len(xs) // 2]"),
    case("one constant", "def median(xs):\n    return 2"),
    case("another function", "def mean(xs):\n    return sum(xs) / len(xs)"),
    case("a syntax error", "def median(xs:\n    return 2"),
    text_case("no code", "The median is the middle of the sorted list."),
    text_case("code that is only thought of", f"<think>\n```python\n{GOOD}\n```\n</think>\nI cannot write it."),
]
EQUAL = "class Same:\n    def __eq__(self, other):\n        return True\n    def __ne__(self, other):\n        return False\n\n"
CHEATS = [
    case("os._exit(0)", "import os\nos._exit(0)"),
    case("sys.exit at import", "import sys\nsys.exit(0)"),
    case("exit inside the function", "import os\ndef median(xs):\n    os._exit(0)"),
    case("SystemExit raised", "def median(xs):\n    raise SystemExit(0)"),
    case("an object equal to everything", EQUAL + "def median(xs):\n    return Same()"),
    case("an int equal to everything", "class N(int):\n    def __eq__(self, other):\n        return True\n\ndef median(xs):\n    return N(9)"),
    case("printed verdicts", "print('OK')\nprint('all tests passed')\nprint('1.0')\nprint('{\"passed\": true}')\n\ndef median(xs):\n    return None"),
    case("an exit hook", "import atexit, os\natexit.register(lambda: os._exit(0))\n\ndef median(xs):\n    return None"),
    case("an exception hook", "import sys, os\nsys.excepthook = lambda *a: os._exit(0)\n\ndef median(xs):\n    return None"),
]
LOOP = [case("an endless loop", "def median(xs):\n    while True:\n        pass"), case("sleep for ever", "import time\ntime.sleep(10 ** 6)")]
LOOP_S = 100


def grade(left: Left) -> list[Outcome]:
    hole = mentions(
        left.said, r"exit[- ]?(?:code|status)", r"return ?code", r"(?:os\.)?_exit", r"sys\.exit", r"exit\(0\)", r"exits? (?:early|before|with)"
    )
    return [
        partial(all_paid, left, REFERENCE, RIGHT),
        partial(none_paid, left, REFERENCE, WRONG),
        partial(none_paid, left, REFERENCE, CHEATS),
        partial(none_paid, left, REFERENCE, LOOP, timeout_s=LOOP_S),
        partial(isolated, left),
        said(hole, "that the exit code decided"),
    ]


def isolated(left: Left) -> tuple[bool, str]:
    """A candidate tries to write a file at a place that anyone on this machine may write to; harmless where it succeeds."""
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o777)
        mark = Path(top) / "written-by-a-candidate"
        code = f"try:\n    open({str(mark)!r}, 'w').write('x')\nexcept Exception:\n    pass\n\n"
        tried = dataclasses.replace(REFERENCE, name="a candidate that writes a file", completion=f"```python\n{code}{GOOD}\n```")
        paid, problem = judge(left, REFERENCE, [tried])
        if mark.exists():
            return False, "the candidate wrote a file on the host"
        return not problem, problem or f"the candidate's file did not appear; it was {'paid' if paid[tried.name] else 'not paid'}"
