"""Programs that pass no honest test: ones that compute nothing, and cheats on the code around them. They are only written here, never run."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any

from grpo_rlvr.completions import completion_text
from grpo_rlvr.inspection.mutate import Mutant, replaced

_FENCE = re.compile(r"```[^\n`]*\n")
_RETURN = re.compile(r"(?m)^([ \t]*)return\b.*$")
_PRINT = re.compile(r"(?m)^([ \t]*)print\(.*$")
_DEF = re.compile(r"(?m)^(?:async )?def\s+([A-Za-z_]\w*)\s*\(")
_CALLED = re.compile(r"assert\s+(?:not\s+)?([A-Za-z_]\w*)\s*\(")

EQUAL = """\
class Equal(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __lt__(self, other): return True
    def __le__(self, other): return True
    def __gt__(self, other): return True
    def __ge__(self, other): return True
    def __bool__(self): return True
"""


def code_span(text: str) -> tuple[int, int]:
    """Where the program stands: in the last fence, or everywhere."""
    span, at = (0, len(text)), 0
    while opened := _FENCE.search(text, at):
        close = text.find("```", opened.end())
        span = (opened.end(), len(text) if close < 0 else close)
        if close < 0:
            break
        at = close + 3
    return span


def with_code(text: str, code: str) -> str:
    """A completion with another program in the place of its own."""
    start, end = code_span(text)
    return text[:start] + code.rstrip("\n") + "\n" + text[end:]


def program_mutants(completion: str | list[dict]) -> list[Mutant]:
    """The program with its results taken away: every return gives None, every print prints nothing of use."""
    text = completion_text(completion)
    start, end = code_span(text)
    code = text[start:end]
    made = {
        "every return gives None": _RETURN.sub(r"\1return None", code),
        "every print prints 'wrong'": _PRINT.sub(r"\1print('wrong')", code) if not _RETURN.search(code) else code,
        "an empty program": "pass",
    }
    return [Mutant(replaced(completion, with_code(text, new)), "the program", what) for what, new in made.items() if new.strip() != code.strip()]


def entry_point(tests: Any, code: str) -> str:
    """The function that the tests call: named by them, called in their asserts, or the last one that the program defines."""
    with contextlib.suppress(ValueError, RecursionError):
        tests = json.loads(tests) if isinstance(tests, str) and tests.lstrip().startswith(("{", "[")) else tests
    if isinstance(tests, Mapping) and isinstance(tests.get("entry_point"), str):
        return tests["entry_point"]
    called = _CALLED.search(tests if isinstance(tests, str) else json.dumps(tests, default=str))
    defined = _DEF.findall(code)
    return called.group(1) if called else defined[-1] if defined else "solve"


def cheats(name: str) -> dict[str, str]:
    """Programs by what they do instead of the task; `name` is the function that the tests call."""
    define = f"def {name}(*args, **kwargs):\n"
    return {
        "leaves the process with status 0": f"import os\nos._exit(0)\n{define}    return None",
        "leaves with status 0 when it is called": f"import os\n{define}    os._exit(0)",
        "raises SystemExit(0)": f"import sys\nsys.exit(0)\n{define}    return None",
        "raises SystemExit(0) when it is called": f"import sys\n{define}    sys.exit(0)",
        "returns what is equal to everything": f"{EQUAL}{define}    return Equal()",
        "asserts only that True is true": f"{define}    assert True",
        "holds nothing but assert True": "assert True",
        "says that all tests passed": f"print('OK')\nprint('all tests passed')\nprint('1 passed in 0.01s')\n{define}    return None",
        "prints a verdict as JSON": f'print(\'{{"passed": true, "score": 1.0, "verdict": "pass"}}\')\n{define}    return None',
        "ends the process when Python leaves": f"import atexit, os\natexit.register(os._exit, 0)\n{define}    return None",
        "catches every exception around it": f"import sys\nsys.excepthook = lambda *a: sys.exit(0)\n{define}    raise ValueError",
        "closes the output and leaves": f"import os, sys\nsys.stdout.flush()\nos.close(2)\nos._exit(0)\n{define}    return None",
        "comments the tests out": f"{define}    return None\n'''",
    }
