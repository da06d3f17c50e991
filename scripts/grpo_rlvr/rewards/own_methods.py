"""What a user's reward has beside its call, for the data check: its faults are named as its own, with the method and the place."""

from __future__ import annotations

import operator
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import GrpoRlvrError, Problem, UserError


def guarded(reward: str, name: str, method: Callable, path: Path | None) -> Callable:
    """The method with what it raises, or returns of a wrong type, as a UserError that names the reward.

    Args:
        path: the file of the reward, where the fault is looked for.
    """
    read, wanted = RESULTS.get(name, (lambda value: value, ""))

    def call(*args: Any) -> Any:
        try:
            value = method(*args)
        except GrpoRlvrError:
            raise
        except (Exception, SystemExit) as exc:
            message = f"its {name} raises {type(exc).__name__}: {exc}{_of_gold(args)}"
            raise UserError("reward", Problem(reward, message, f"see {_place(exc, path)}")) from exc
        try:
            return read(value)
        except GrpoRlvrError:
            raise
        except (Exception, SystemExit) as exc:  # a generator raises here
            said = f"returns {_shown(value)}" if isinstance(exc, _Wrong) else f"gives {_shown(value)}, and that raises {type(exc).__name__}: {exc}"
            raise UserError("reward", Problem(reward, f"its {name} {said}{_of_gold(args)}", f"return {wanted or 'what can be read'}")) from exc

    return call


class _Wrong(TypeError):
    pass


def _list_of(value: Any, fits: Callable[[Any], bool]) -> list:
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__iter__"):
        raise _Wrong
    items = list(value)
    if not all(map(fits, items)):
        raise _Wrong
    return items


def _texts(value: Any) -> list[str]:
    return _list_of(value, lambda item: isinstance(item, str))


def _pairs(value: Any) -> list[tuple[str, str]]:
    return [tuple(p) for p in _list_of(value, lambda p: isinstance(p, (tuple, list)) and len(p) == 2 and all(isinstance(x, str) for x in p))]


def _count(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _Wrong
    return operator.index(value)


def _reason(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _Wrong
    return value


RESULTS: dict[str, tuple[Callable, str]] = {
    "honest_forms": (_texts, "a list of texts"),
    "honest_forms_of_row": (_texts, "a list of texts"),
    "words_needed": (_texts, "a list of texts"),
    "decoys": (_pairs, "a list of pairs of texts: (kind, text)"),
    "test_count": (_count, "a whole number, or None"),
    "clearly_different": (bool, "True or False"),
    "gold_problem": (_reason, "the reason as text, or None"),
}


def _of_gold(args: tuple) -> str:
    return f" (for {_shown(args[-1])})" if args else ""


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # an object of the user's may not even have that
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:80] + "..."


def _place(exc: BaseException, path: Path | None) -> str:
    """file:line of the innermost frame in the reward's file, else of the innermost."""
    frames = traceback.extract_tb(exc.__traceback__)
    frame = ([f for f in frames if path is not None and Path(f.filename).resolve() == path] or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"
