"""Runs the reference solutions of a file of code tasks, and stubs, without any sandbox, and prints one JSON object.

Only for solutions of our own: `python direct_run.py tasks.jsonl`.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import types
from pathlib import Path

STUB_VALUES = ("None", "0", "1", "-1", "True", "False", "''", "[]", "{}", "a[0]", "a[-1]", "len(a[0])", "list(a)")


def outcomes(source: str, tests: dict) -> list[bool]:
    """Whether each test passes, in this process; an `asserts` test is one test."""
    if "stdin_stdout" in tests:
        return [_printed(source, case["stdin"]) == _lines(case["stdout"]) for case in tests["stdin_stdout"]]
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    try:
        exec(source, module.__dict__)
        if "asserts" in tests:
            exec(tests["asserts"], dict(vars(module)))
            return [True]
    except Exception:
        return [False]
    return [_returned(module, tests["entry_point"], case) for case in tests["cases"]]


def _returned(module: types.ModuleType, name: str, case: dict) -> bool:
    try:
        got = getattr(module, name)(*json.loads(json.dumps(case["args"])), **case.get("kwargs", {}))
        return _same(json.loads(json.dumps(got)), case["expected"])
    except Exception:
        return False


def _same(got: object, expected: object) -> bool:
    if isinstance(got, list) and isinstance(expected, list):
        return len(got) == len(expected) and all(map(_same, got, expected))
    if isinstance(got, dict) and isinstance(expected, dict):
        return got.keys() == expected.keys() and all(_same(got[k], expected[k]) for k in got)
    return isinstance(got, bool) == isinstance(expected, bool) and got == expected


def _printed(source: str, stdin: str) -> list[str] | None:
    out, before = io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(stdin)
    try:
        with contextlib.redirect_stdout(out):
            exec(source, {"__name__": "__main__"})
    except Exception:
        return None
    finally:
        sys.stdin = before
    return _lines(out.getvalue())


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def stubs(tests: dict) -> list[str]:
    """Programs that solve nothing: empty, constant (also with a right answer of one of the tests), an argument, an exception."""
    if "stdin_stdout" in tests:
        printed = [f"print({case['stdout']!r}, end='')" for case in tests["stdin_stdout"]]
        return ["", "print(input())", "import sys\nprint(sys.stdin.read(), end='')", "print(0)", "print()", "print('yes')", *printed]
    if "cases" in tests:
        name, right = tests["entry_point"], [repr(case["expected"]) for case in tests["cases"]]
    else:
        nodes = list(ast.walk(ast.parse(tests["asserts"])))
        name = next(n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id != "len")
        right = [ast.unparse(n.comparators[0]) for n in nodes if isinstance(n, ast.Compare)]
    if name[0].isupper():
        head = f"class {name}:\n  def __init__(self, *a): pass\n  def __len__(self): return 0\n  def __getattr__(self, name): return lambda *a: "
        bodies = ["None", "self", "a[0] if a else 0", "(_ for _ in ()).throw(ValueError)", "(_ for _ in ()).throw(LookupError)"]
        return [
            "",
            f"class {name}: pass",
            f"class {name}:\n  def __init__(self, *a): pass",
            *(head + body for body in bodies),
            *(head + r for r in right),
        ]
    return ["", f"def {name}(*a, **k): raise ValueError", *(f"def {name}(*a, **k): return {value}" for value in (*STUB_VALUES, *right))]


def main(path: str) -> None:
    failing, passing, tried = [], [], 0
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    for number, row in enumerate(rows):
        results = outcomes(row["solution"], row["tests"])
        failing += [] if results and all(results) else [(number, results)]
        for stub in stubs(row["tests"]):
            tried += 1
            passing += [(number, stub)] if all(outcomes(stub, row["tests"])) else []
    print(json.dumps({"solutions": len(rows), "failing_solutions": failing, "stubs": tried, "passing_stubs": passing}))


if __name__ == "__main__":
    main(sys.argv[1])
