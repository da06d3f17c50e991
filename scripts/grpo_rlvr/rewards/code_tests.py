"""The `tests` column of a row, read once and made into something that can be asked of a sandbox."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.rewards.code_asserts import compile_asserts
from grpo_rlvr.rewards.strict_json import NotJson, parse_strict
from grpo_rlvr.sandbox.inside.values import TooLarge, encode

KINDS = "stdin_stdout, entry_point with cases, or asserts"
FORMS = f"read are an object (or its JSON text) with {KINDS}; a text of Python asserts; or a list of them"


@dataclass(frozen=True)
class CallTests:
    """Calls of a function and the values they must give, aligned. `literal`: the values were Python literals, not JSON."""

    entry: str
    calls: tuple[tuple[tuple, dict], ...]
    expected: tuple[Expected, ...]
    literal: bool = False


@dataclass(frozen=True)
class Expected:
    """What one call must give: a value, or (`truth`) anything that counts as true or false."""

    value: Any
    truth: bool = False


@dataclass(frozen=True)
class ProgramTests:
    """Inputs of a program and what it must print, aligned."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class SourceTests:
    """Test code to be run against the candidate from a process of its own; see `sandbox.Tests` for the fields, `CompiledAsserts` for `count`."""

    source: str
    names: tuple[str, ...]
    top_level: bool
    entry: str | None = None
    count: int | None = None


def read_tests(value: Any) -> CallTests | ProgramTests | SourceTests:
    """The tests of one row: a mapping, a list of asserts, or the text of either. ValueError with the reason for what cannot tell right from wrong."""
    if value is None:
        raise ValueError("the tests are missing (null)")
    value = _from_json(value) if isinstance(value, str) else value
    if isinstance(value, str) or _is_list(value):
        return _bare_asserts(value)
    if not isinstance(value, Mapping):
        raise ValueError(f"the tests are a {type(value).__name__}; {FORMS}")
    # Arrow fills keys that a row does not have with nulls.
    given = {key: item for key, item in value.items() if item is not None}
    unknown = set(given) - {"stdin_stdout", "entry_point", "cases", "asserts"}
    if unknown:
        raise ValueError(f"the tests have the key {sorted(map(str, unknown))[0]!r}; known are {KINDS}")
    kinds = [key for key in ("stdin_stdout", "cases", "asserts") if key in given]
    if len(kinds) != 1:
        raise ValueError(f"the tests have {' and '.join(kinds) or 'none of the kinds'}; give exactly one of {KINDS}")
    if kinds == ["stdin_stdout"]:
        return _program_tests(given["stdin_stdout"])
    entry = given.get("entry_point")
    if isinstance(entry, str):
        entry = entry.strip().replace("().", ".", 1)  # as in `Solution().method`
    if entry is not None and not _is_name(entry):
        raise ValueError(f"entry_point is {str(entry)[:60]!r}, not the name of a function, Class.method, or a method of class Solution")
    if kinds == ["asserts"]:
        return _source_tests(given["asserts"], entry)
    if entry is None:
        raise ValueError("the tests have cases and no entry_point")
    return _call_tests(entry, given["cases"])


def _from_json(text: str) -> Any:
    """What a text holds: JSON, or (as it is) what may be Python."""
    try:
        return parse_strict(text)
    except NotJson as exc:
        if text.lstrip()[:1] in ("{", "["):  # no assert begins like this
            raise ValueError(f"the tests are text that is not JSON: {exc}; {FORMS}") from None
        return text


def _bare_asserts(value: str | Sequence) -> CallTests | SourceTests:
    """Asserts without an object around them, read as `{"asserts": value}` is."""
    if not value or (isinstance(value, str) and not value.strip()):
        raise ValueError(f"the tests are empty: everything would pass; {FORMS}")
    if not all(isinstance(line, str) for line in value):
        kind = next(type(line).__name__ for line in value if not isinstance(line, str))
        raise ValueError(f"the tests are a list that holds a {kind}; {FORMS}")
    if not isinstance(value, str) and (silent := [i for i, line in enumerate(value) if _judges_nothing(line)]):
        raise ValueError(f"item {silent[0]} of the tests asserts nothing: {value[silent[0]][:60]!r}; {FORMS}")
    if not any("assert" in line for line in ([value] if isinstance(value, str) else value)):
        # No word of what exactly is no Python in it: rows of one wrong form are one problem.
        raise ValueError(f"the tests are {'text' if isinstance(value, str) else 'a list of texts'} without an assert; {FORMS}")
    try:
        return _source_tests(value, None)
    except ValueError as exc:
        raise ValueError(f"{exc}; {FORMS}") from None


def _judges_nothing(line: str) -> bool:
    """Whether an item of a list is an expression alone, such as `f(3) == 7` without its assert."""
    try:
        body = ast.parse(line.strip()).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False  # the lines may be parts of one program
    return bool(body) and all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Compare) for node in body)


def _call_tests(entry: str, cases: Any) -> CallTests:
    calls, expected = [], []
    for number, case in enumerate(_rows(cases, "cases")):
        if "expected" not in case:
            raise ValueError(f"case {number} has no 'expected'")
        _known_keys(f"case {number}", case, ("args", "kwargs"), ("expected",))
        args, kwargs = case.get("args"), case.get("kwargs")
        args, kwargs = [] if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, Sequence) or isinstance(args, str) or not isinstance(kwargs, Mapping):
            raise ValueError(f"case {number}: args is a list of arguments, kwargs an object")
        try:
            encode([list(args), dict(kwargs)])
        except (TooLarge, RecursionError):
            raise ValueError(f"case {number}: its arguments are nested too deeply or too large to be handed over") from None
        calls.append((tuple(args), dict(kwargs)))
        expected.append(Expected(case["expected"]))
    if all(want.value is None for want in expected):
        raise ValueError("every case expects null: a function that does nothing would pass")
    return CallTests(entry, tuple(calls), tuple(expected))


def _program_tests(tests: Any) -> ProgramTests:
    inputs, outputs = [], []
    for number, test in enumerate(_rows(tests, "stdin_stdout")):
        _known_keys(f"test {number}", test, ("stdin",), ("stdout",))
        stdin, stdout = test.get("stdin"), test.get("stdout")
        stdin = "" if stdin is None else stdin
        if not isinstance(stdin, str) or not isinstance(stdout, str):
            raise ValueError(f"test {number}: stdin and stdout are text")
        try:
            stdin.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ValueError(f"test {number}: stdin holds half a surrogate pair, which no input can") from None
        inputs.append(stdin)
        outputs.append(stdout)
    if not any(text.strip() for text in outputs):
        raise ValueError("no test expects any output: a program that does nothing would pass")
    return ProgramTests(tuple(inputs), tuple(outputs))


def _source_tests(source: Any, entry: str | None) -> CallTests | SourceTests:
    if _is_list(source) and all(isinstance(line, str) for line in source):
        source = "\n".join(source)
    if not isinstance(source, str) or not source.strip():
        raise ValueError("asserts is empty" if isinstance(source, str) else f"asserts is a {type(source).__name__}, not Python source")
    compiled = compile_asserts(source)
    if compiled.function is not None:
        return CallTests(
            compiled.function,
            tuple(call for call, _, _ in compiled.calls),
            tuple(Expected(value, truth) for _, value, truth in compiled.calls),
            literal=True,
        )
    if compiled.needs_entry and entry is None:
        raise ValueError("the asserts define check(candidate) and never call it: name the function as entry_point, or add check(f)")
    names = dict.fromkeys([*compiled.names, *([entry.partition(".")[0]] if entry else [])])
    return SourceTests(source, tuple(names), compiled.top_level, entry if compiled.needs_entry else None, compiled.count)


def _known_keys(where: str, row: Mapping, inputs: tuple[str, ...], others: tuple[str, ...]) -> None:
    """ValueError where the inputs may stand under another name; further keys beside them are notes."""
    unknown = [str(key) for key in row if key not in (*inputs, *others)]
    if unknown and not any(key in row for key in inputs):
        raise ValueError(f"{where} has the key {sorted(unknown)[0]!r} and none of {', '.join(inputs)}")


def _rows(value: Any, name: str) -> Sequence[Mapping]:
    if isinstance(value, str):
        try:
            value = parse_strict(value)
        except NotJson as exc:
            raise ValueError(f"{name} is text that is not JSON: {exc}") from None
    if not _is_list(value) or not all(isinstance(row, Mapping) for row in value):
        raise ValueError(f"{name} is not a list of objects")
    if not value:
        raise ValueError(f"{name} is empty: everything would pass")
    return value


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_name(text: Any) -> bool:
    parts = text.split(".") if isinstance(text, str) else []
    return 1 <= len(parts) <= 2 and all(part.isidentifier() and not keyword.iskeyword(part) for part in parts)
