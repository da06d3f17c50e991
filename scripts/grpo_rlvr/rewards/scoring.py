"""All rewards over one batch: in parallel, each timed, values checked, one total and one verdict a completion."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_rlvr.cli import say
from grpo_rlvr.errors import GrpoRlvrError, Problem, UserError
from grpo_rlvr.rewards.registry import BuiltReward
from grpo_rlvr.rewards.values import checked_values, settled

SLOW_S = 60.0  # after this, and each time the wait has doubled, a reward that is waited for is named


@dataclass(frozen=True)
class Scores:
    """`values[name][i]` and `total[i]` belong to completion i (None: could not be scored); `seconds` is wall time."""

    values: dict[str, list[float | None]]
    total: list[float | None]
    seconds: dict[str, float]


def score_all(rewards: Sequence[BuiltReward], completions: Sequence[Any], /, **columns: Any) -> Scores:
    """Scores a batch with every reward. `total` is the weighted sum; None where a required reward is None.

    A reward that is None and not required is left out of the sum, as TRL does; where all are None the total is None.
    Raises UserError("reward") naming the reward for an exception in it, a wrong length, a non-number, inf or NaN.
    """
    if not rewards:
        raise UserError("reward", Problem("rewards", "there is no reward to score with"))
    timed = _at_once(rewards, completions, columns)
    values = {reward.name: result[0] for reward, result in zip(rewards, timed, strict=True)}
    seconds = {reward.name: result[1] for reward, result in zip(rewards, timed, strict=True)}
    total = [_total(rewards, [values[r.name][i] for r in rewards]) for i in range(len(completions))]
    return Scores(values, total, seconds)


def verdicts(rewards: Sequence[BuiltReward], scores: Scores, threshold: float) -> list[bool | None]:
    """The rewards' own pass or fail per completion: weighted mean of the required rewards (of all, if none is) >= threshold.

    None where one of those rewards could not score. Weights that add up to nothing count alike.
    """
    judges = [r for r in rewards if r.required] or list(rewards)
    weights = [abs(r.weight) for r in judges]
    if not sum(weights):
        weights = [1.0] * len(judges)
    out: list[bool | None] = []
    for i in range(len(scores.total)):
        row = [scores.values[r.name][i] for r in judges]
        if any(v is None for v in row):
            out.append(None)
        else:
            # A hair of slack: 0.1 + 0.2 must not fail a threshold of 0.3.
            out.append(sum(w * v for w, v in zip(weights, row, strict=True)) / sum(weights) >= threshold - 1e-9)
    return out


def _at_once(rewards: Sequence[BuiltReward], completions: Sequence[Any], columns: Mapping[str, Any]) -> list[tuple[list[float | None], float]]:
    """`_timed` of each reward, each in a thread of its own; the first error in their order is raised when all are done.

    The threads do not hold up the end of the program, so that Ctrl-C ends one whose reward hangs; and such a reward is named.
    """
    results: list[Any] = [None] * len(rewards)

    def work(place: int) -> None:
        try:
            results[place] = _timed(rewards[place], completions, columns)
        except BaseException as exc:  # raised below, in the caller's thread
            results[place] = exc

    threads = [threading.Thread(target=work, args=(i,), name=f"reward {r.name}", daemon=True) for i, r in enumerate(rewards)]
    for thread in threads:
        thread.start()
    start, patience = time.monotonic(), SLOW_S
    for reward, thread in zip(rewards, threads, strict=True):
        while thread.is_alive():
            thread.join(max(0.0, start + patience - time.monotonic()))
            if thread.is_alive():
                say(f"reward {reward.name} has been scoring {len(completions)} completions for {patience:.0f} s; it is waited for")
                patience *= 2
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _total(rewards: Sequence[BuiltReward], row: list[float | None]) -> float | None:
    if all(v is None for v in row) or any(v is None and r.required for r, v in zip(rewards, row, strict=True)):
        return None
    return sum(r.weight * v for r, v in zip(rewards, row, strict=True) if v is not None)


def _timed(reward: BuiltReward, completions: Sequence[Any], columns: Mapping[str, Any]) -> tuple[list[float | None], float]:
    start = time.perf_counter()
    try:
        # Each reward gets lists of its own: one that edits them must not change what the others see.
        result = settled(reward.function(completions=own_copy(completions), **{name: own_copy(value) for name, value in columns.items()}))
    except GrpoRlvrError:
        raise
    except (Exception, SystemExit) as exc:  # sys.exit in a reward must not pass for the script's own answer
        raise UserError("reward", Problem(reward.name, f"{type(exc).__name__}: {exc}", f"see {place_of(exc, reward.source_files)}")) from exc
    return checked_values(reward.name, result, len(completions)), time.perf_counter() - start


def own_copy(value: Any) -> Any:
    """Lists, tuples and dicts copied to the bottom; everything else (text, numbers, a trainer's objects) is passed on as it is."""
    try:
        return _copied(value)
    except RecursionError:  # nested too deep to walk; what deep data can be parsed at all is rare
        return value


def _copied(value: Any) -> Any:
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if type(value) is list:
        return [v if type(v) is str else _copied(v) for v in value]
    if type(value) is dict:
        return {k: v if type(v) is str else _copied(v) for k, v in value.items()}
    return tuple(_copied(v) for v in value) if type(value) is tuple else value


def place_of(exc: BaseException, files: tuple[Path, ...]) -> str:
    """file:line of the innermost frame in the reward's own files, else of the innermost frame."""
    frames = traceback.extract_tb(exc.__traceback__)
    own = [f for f in frames if Path(f.filename).resolve() in {p.resolve() for p in files}]
    frame = (own or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"
