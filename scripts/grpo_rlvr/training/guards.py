"""What must not pass in silence: a reward that raises, a value that is no number, a gradient that is not finite. The batch is kept.

`train/failed-batch.json` holds what is needed to see it again: which reward, which error, and the first samples, cut to a bounded size.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.cli import say, write_json
from grpo_rlvr.data import ROW_ID
from grpo_rlvr.errors import GrpoRlvrError, Problem, UserError
from grpo_rlvr.rewards.registry import BuiltReward
from grpo_rlvr.rewards.scoring import place_of
from grpo_rlvr.rewards.values import settled
from grpo_rlvr.visible import fold, visible

SAMPLES, CHARACTERS = 8, 4000
# Beyond this a sum of squares leaves float32: advantages and gradient become infinite.
LARGEST = 1e18


class FailedBatch:
    """Writes the last batch that failed; one file a process."""

    def __init__(self, folder: Path):
        rank = os.environ.get("RANK", "0")
        self.path = folder / ("failed-batch.json" if rank == "0" else f"failed-batch.rank{rank}.json")

    def save(self, kind: str, problem: str, completions: Sequence, arguments: dict[str, Any], first: Sequence[int] = (), **more: Any) -> Path:
        """Write what is to be seen of this batch and return the file.

        Args:
            kind: exception, value or gradient.
            first: indices of the samples that matter; the others follow until there are enough.
        """
        order = [*first, *(i for i in range(len(completions)) if i not in set(first))][:SAMPLES]
        columns = {
            k: v for k, v in arguments.items() if isinstance(v, list) and len(v) == len(completions) and k not in ("completion_ids", "prompts")
        }
        state = arguments.get("trainer_state")
        samples = [
            {
                "index": i, ROW_ID: columns.get(ROW_ID, [None] * (i + 1))[i], "prompt": _cut((arguments.get("prompts") or [None] * (i + 1))[i]),
                "completion": _cut(completions[i]), "columns": {k: _cut(v[i], CHARACTERS // 4) for k, v in columns.items() if k != ROW_ID},
                **{k: v[i] for k, v in more.items() if isinstance(v, list) and len(v) == len(completions)},
            }
            for i in order
        ]  # fmt: skip
        about = {"at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "step": getattr(state, "global_step", None)}
        rest = {k: v for k, v in more.items() if not isinstance(v, list)}
        data = {**about, "kind": kind, "problem": fold(problem, CHARACTERS, 60), **rest, "batch": len(completions), "samples": samples}
        write_json(self.path, "failed-batch", 1, json.loads(json.dumps(data, default=str, allow_nan=True), parse_constant=str))
        return self.path


class RewardFailures:
    """Rewards that raise: their values are None for the batch, and the run stops when one goes on raising.

    A reward that has not worked once, in training or in evaluation, stops the run at once: that is a mistake, not a bad hour.
    """

    def __init__(self, rewards: Sequence[BuiltReward], limit: int, failed: FailedBatch):
        self.limit, self.failed = limit, failed
        self.guarded = [dataclasses.replace(reward, function=Guarded(reward, self)) for reward in rewards]
        self.in_a_row: dict[str, int] = {}
        self.total: dict[str, int] = {}
        self._worked: set[tuple[str, bool]] = set()
        self._now: dict[str, tuple[BaseException, str]] = {}
        self._lock = threading.Lock()

    def note(self, reward: BuiltReward, exc: BaseException) -> None:
        with self._lock:
            self._now[reward.name] = (exc, place_of(exc, reward.source_files))

    def settle(self, completions: Sequence, arguments: dict[str, Any], evaluating: bool) -> None:
        """After a batch: save it if a reward failed on it, count, and raise UserError if that was one time too many."""
        now, self._now = self._now, {}
        for name in (reward.name for reward in self.guarded):
            if name not in now:
                self.in_a_row[name] = 0
                self._worked.add((name, evaluating))
                continue
            exc, place = now[name]
            text = f"{type(exc).__name__}: {exc}"
            path = self.failed.save("exception", text, completions, arguments, reward=name, place=place)
            self.in_a_row[name] = self.in_a_row.get(name, 0) + 1
            self.total[name] = self.total.get(name, 0) + 1
            never = (name, evaluating) not in self._worked
            if never or self.in_a_row[name] > self.limit:
                often = "the first batch" if never else f"{self.in_a_row[name]} batches in a row (run.reward_failures {self.limit})"
                raise UserError("reward", Problem(name, f"failed on {often}: {text}", f"see {place}; the batch is in {path}"))
            say(f"warning: reward {name} failed on this batch and gave no values: {visible(fold(text, 300, 3))} (kept in {path.name})")

    def refuse(self, exc: UserError, completions: Sequence, arguments: dict[str, Any]) -> UserError:
        """The error for values that are no finite numbers, with the batch saved."""
        bad = sorted({i for reward in self.guarded for i in reward.function.bad})
        path = self.failed.save("value", str(exc), completions, arguments, first=bad, reward=exc.problems[0].where)
        return UserError(exc.kind, [Problem(p.where, p.message, f"{p.fix}; the batch is in {path}") for p in exc.problems])


class Guarded:
    """A reward function whose exceptions are noted instead of raised."""

    def __init__(self, reward: BuiltReward, failures: RewardFailures):
        self.reward, self.failures = reward, failures
        self.bad: list[int] = []

    def __call__(self, completions: list, **columns: Any) -> Any:
        self.bad = []
        try:
            values = settled(self.reward.function(completions=completions, **columns))
        except GrpoRlvrError:
            raise
        except (Exception, SystemExit) as exc:
            self.failures.note(self.reward, exc)
            return [None] * len(completions)
        if isinstance(values, list):
            numbers, most = [_number(v) for v in values], LARGEST / max(1.0, abs(self.reward.weight))
            self.bad = [i for i, v in enumerate(numbers) if v is not None and not abs(v) <= most]
            if self.bad and all(math.isfinite(numbers[i]) for i in self.bad):
                first = self.bad[0]
                message = f"value {first} is {numbers[first]:g} with weight {self.reward.weight:g}: beyond {LARGEST:g} the gradient becomes infinite"
                raise UserError("reward", Problem(self.reward.name, message, "keep rewards between 0 and 1"))
        return values


def _number(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _cut(value: Any, most: int = CHARACTERS) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return value if len(text) <= most else f"{text[:most]} ... ({len(text) - most} more characters)"
