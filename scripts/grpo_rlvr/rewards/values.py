"""What a reward may return: a list with one finite number, or None, for each completion."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Mapping
from typing import Any

from grpo_rlvr.errors import Problem, UserError


def settled(result: Any) -> Any:
    """A reward's result with a coroutine run to its end and other iterables as lists. Must not be called inside a running event loop."""
    if inspect.isawaitable(result):
        result = asyncio.run(_awaited(result))
    if not isinstance(result, (Mapping, str, bytes)) and hasattr(result, "__iter__"):
        result = list(result)
    return result


async def _awaited(result: Any) -> Any:
    return await result


def checked_values(name: str, result: Any, count: int) -> list[float | None]:
    """`result` as a list of `count` finite floats or None; UserError("reward") says what is wrong with it."""

    def refuse(message: str) -> UserError:
        return UserError("reward", Problem(name, message, "a reward returns a list with one finite number, or None, for each completion"))

    if not isinstance(result, list):
        raise refuse(f"returned a {type(result).__name__}")
    if len(result) != count:
        raise refuse(f"returned {len(result)} values for {count} completions")
    values: list[float | None] = []
    for i, value in enumerate(result):
        if value is None:
            values.append(None)
            continue
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise refuse(f"value {i} is {value!r:.80}, not a number") from None
        if not math.isfinite(number):
            raise refuse(f"value {i} is {number}")
        values.append(number)
    return values
