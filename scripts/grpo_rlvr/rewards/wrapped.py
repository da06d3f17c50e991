"""The rewards of this package that a user's own function or object rests on, found without calling it."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from grpo_rlvr.rewards.base import Reward

DEPTH = 6
MANY = 64  # a longer list or mapping is data, not a handful of rewards


def wrapped_rewards(function: Callable) -> list[Reward]:
    """Rewards that it holds (attributes, closures, lists and mappings) or names as globals of its file, in what it calls there too.

    One that is made anew at each call is not found.
    """
    found: list[Reward] = []
    seen: set[int] = set()
    whole = function
    while isinstance(whole, functools.partial):
        whole = whole.func
    home = getattr(whole, "__module__", None)

    def look(value: Any, depth: int) -> None:
        if depth > DEPTH or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, Reward):
            found.append(value)
        for part in _parts(value, home):
            look(part, depth + 1)

    look(function, 0)
    return [reward for reward in found if reward is not function]


def _parts(value: Any, home: str | None) -> Iterator[Any]:
    """What a value holds, where it is of the user's file (module `home`), a reward, or a plain container of such."""
    if isinstance(value, (dict, list, tuple, set)):
        held = list(value.values() if isinstance(value, dict) else value) if len(value) <= MANY else ()
        yield from held
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, types.FunctionType):
        if value.__module__ == home:
            yield from _of_function(value)
    elif isinstance(value, type):
        if value.__module__ == home:
            yield from vars(value).values()
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, Reward) or type(value).__module__ == home:
        yield from list(getattr(value, "__dict__", {}).values())
        yield type(value)


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    yield from vars(function).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]


def _names(code: types.CodeType) -> set[str]:
    """Names that the code reads, in functions inside it too."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)
