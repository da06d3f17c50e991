"""Test code of a data set: read as calls with known values where it is that simple, else what must be known to run it.

The source is the data set's own, not a model's.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MODULES = ("candidate", "solution")
_BUILTINS = frozenset(dir(builtins))


@dataclass
class CompiledAsserts:
    """What is known of test code.

    Attributes:
        function: the one function that all asserts call, where they could be compiled; else None.
        calls: ((args, kwargs), value, truth) for each assert; `truth` where only true or false is asked.
        names: what the code takes from the candidate.
        top_level: whether statements at its top level test anything.
        needs_entry: it defines `check(candidate)` and leaves the call to others.
        count: how many tests it holds; None where that shows only when it runs.
    """

    function: str | None = None
    calls: list[tuple[tuple[tuple, dict], Any, bool]] = field(default_factory=list)
    names: tuple[str, ...] = ()
    top_level: bool = False
    needs_entry: bool = False
    count: int | None = None


def compile_asserts(source: str) -> CompiledAsserts:
    """Read test code. ValueError where it cannot be read or tests nothing."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise ValueError(f"the asserts are not Python: {exc}") from None
    if not any(_tests(node) for node in ast.walk(tree)):
        raise ValueError("the asserts contain no assert: everything would pass")
    simple = _as_calls(tree.body)
    if simple is not None:
        return simple
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test") and not node.decorator_list:
            a = node.args
            needed = [arg.arg for arg in [*a.posonlyargs, *a.args][: len(a.posonlyargs + a.args) - len(a.defaults)]]
            if needed:
                raise ValueError(f"{node.name} asks for the fixture {needed[0]!r}: pytest's fixtures are not there")
    compiled = CompiledAsserts(names=_names_wanted(tree), top_level=any(_acts(node) for node in tree.body))
    compiled.needs_entry = _has_check(tree)
    compiled.count = _count(tree, compiled.names)
    if not compiled.names and not compiled.needs_entry and not _imports_all(tree):
        raise ValueError("the asserts use nothing of the candidate")
    return compiled


def _tests(node: ast.AST) -> bool:
    """Whether a node is something that can fail a test."""
    if isinstance(node, (ast.Assert, ast.Raise)):
        return True
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return name.startswith("assert") or name == "raises"


def _count(tree: ast.Module, names: tuple[str, ...]) -> int | None:
    """Tests in code of other forms; one that asks the candidate several things counts as often."""
    again = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    for node in ast.walk(tree):
        once = not isinstance(node, ast.FunctionDef) or (node.name.startswith("test") or node.name == "check") and not node.decorator_list
        if not (once and not isinstance(node, again)) and any(_tests(n) or _asks(n, names) for n in ast.walk(node)):
            return None
    found = [node for node in ast.walk(tree) if _tests(node)]
    return sum(max(1, sum(_asks(n, names) for n in ast.walk(node))) for node in found)


def _asks(node: ast.AST, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _acts(node: ast.stmt) -> bool:
    """Whether a top-level statement does more than define or import."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return False
    passive = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Pass)
    return not isinstance(node, passive) and any(_tests(inner) or isinstance(inner, ast.Call) for inner in ast.walk(node))


# ---- asserts that are calls with a literal
def _as_calls(body: list[ast.stmt]) -> CompiledAsserts | None:
    found = CompiledAsserts()
    functions = set()
    for node in body:
        if _is_candidate_import(node) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test") and not node.decorator_list and not _parameters(node):
            inner = _as_calls(node.body)  # a test function of nothing but such asserts
        elif isinstance(node, ast.Assert):
            inner = _as_call(node.test)
        else:
            return None
        if inner is None:
            return None
        functions.add(inner.function)
        found.calls += inner.calls
    if len(functions) != 1 or not found.calls:
        return None
    found.function = functions.pop()
    # Where every call may give None, a function that does nothing would pass: the sandbox must show it.
    return None if all(value is None or (truth and not value) for _, value, truth in found.calls) else found


def _as_call(test: ast.expr) -> CompiledAsserts | None:
    """One assert as a call: f(...) == literal, the other way round, `is None|True|False`, f(...) or not f(...)."""
    truth, value = True, True
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, value = test.operand, False
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and value is True:
        left, right = test.left, test.comparators[0]
        if isinstance(test.ops[0], ast.Eq) and not isinstance(left, ast.Call):
            left, right = right, left
        singleton = isinstance(right, ast.Constant) and (right.value is None or isinstance(right.value, bool))
        if not isinstance(test.ops[0], ast.Eq) and not (isinstance(test.ops[0], ast.Is) and singleton):
            return None
        literal = _literal(right)
        if literal is None:
            return None
        test, truth, value = left, False, literal[0]
    if not isinstance(test, ast.Call) or not isinstance(test.func, ast.Name) or test.func.id in _BUILTINS:
        return None
    args = [_literal(arg) for arg in test.args]
    kwargs = {word.arg: _literal(word.value) for word in test.keywords}
    if None in args or None in kwargs or None in kwargs.values():
        return None
    call = (tuple(arg[0] for arg in args), {name: item[0] for name, item in kwargs.items()})
    return CompiledAsserts(function=test.func.id, calls=[(call, value, truth)])


def _literal(node: ast.expr) -> tuple[Any] | None:
    """The value of a literal, in a tuple since None is one too."""
    try:
        return (ast.literal_eval(node),)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _is_candidate_import(node: ast.stmt) -> bool:
    """`from candidate import f`; an import under another name needs the real thing."""
    return isinstance(node, ast.ImportFrom) and node.module in MODULES and all(alias.asname is None for alias in node.names)


# ---- other test code
def _names_wanted(tree: ast.Module) -> tuple[str, ...]:
    """Names that the code reads and nobody but the candidate can give it."""
    imported, own, read = [], set(), []
    modules = set(MODULES)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            if node.module in MODULES:
                imported += [name for name in names if name != "*"]
            else:
                own |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            modules |= {alias.asname for alias in node.names if alias.name in MODULES and alias.asname}
            own |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            own.add(node.name)
            own |= set(_parameters(node)) if not isinstance(node, ast.ClassDef) else set()
        elif isinstance(node, ast.Lambda):
            own |= set(_parameters(node))
        elif isinstance(node, ast.ExceptHandler) and node.name:
            own.add(node.name)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                read.append(node.id)
            else:
                own.add(node.id)
    attributes = [n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id in modules]
    wanted = [name for name in read if name not in own and name not in _BUILTINS and name not in modules]
    return tuple(dict.fromkeys([*imported, *attributes, *wanted]))


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    a = node.args
    given: Iterable[ast.arg | None] = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
    return [arg.arg for arg in given if arg is not None]


def _imports_all(tree: ast.Module) -> bool:
    return any(isinstance(n, ast.ImportFrom) and n.module in MODULES and any(a.name == "*" for a in n.names) for n in tree.body)


def _has_check(tree: ast.Module) -> bool:
    """Whether `check` is defined with one parameter and called nowhere."""
    defines = any(isinstance(n, ast.FunctionDef) and n.name == "check" and len(n.args.args) == 1 for n in tree.body)
    calls = any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "check" for n in ast.walk(tree))
    return defines and not calls
