"""Between TRL and the rewards: one scoring of a batch for all rewards.

TRL calls its reward functions one after the other and leaves a `None` out of the sum, which would move the baseline of the
group. So the first call of a batch scores all rewards in parallel, and a completion that a required reward cannot score
is `None` for every one of them: TRL then drops that sample.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.data import ROW_ID
from grpo_rlvr.errors import UserError
from grpo_rlvr.rewards.registry import BuiltReward
from grpo_rlvr.rewards.scoring import Scores, score_all, verdicts
from grpo_rlvr.training.guards import RewardFailures
from grpo_rlvr.training.timeline import Timeline


class RewardBatch:
    """Scores each batch once and hands the columns to TRL's separate calls.

    Attributes:
        held_out: one record a held-out completion, in the order they were scored, until `take_held_out` empties it.
        seconds: time of each reward in the last batch.
        timeline: is told when scoring begins and ends.
    """

    def __init__(self, rewards: Sequence[BuiltReward], threshold: float, failures: RewardFailures | None = None):
        self.rewards = list(rewards)
        self.failures = failures
        self.threshold = threshold
        self.held_out: list[dict] = []
        self._counts = [0, 0]  # of training: scored, and dropped because a required reward gave `None`
        self.seconds: dict[str, float] = {}
        self.timeline = Timeline()
        self._lock = threading.Lock()
        self._completions: object = None  # kept alive, so that its identity cannot be reused by the next batch
        self._arguments: dict[str, Any] = {}
        self._total: list[float | None] = []
        self._columns: dict[str, list[float | None]] = {}

    def functions(self) -> list[AdaptedReward]:
        """One callable a reward, in order, for `GRPOTrainer(reward_funcs=...)`."""
        return [AdaptedReward(self, reward.name) for reward in self.rewards]

    def column(self, name: str, completions: list, arguments: dict[str, Any]) -> list[float | None]:
        """The values of reward `name` for this batch; scores the batch at the first call."""
        with self._lock:
            if completions is not self._completions:
                self.timeline.reward_begins()
                scores = self._score(completions, arguments)
                self._columns = drop_unscorable(self.rewards, scores)
                self._completions, self._arguments, self._total = completions, arguments, scores.total
                self.seconds = scores.seconds
                self._record(scores, completions, arguments)
                self.timeline.reward_ends()
            return list(self._columns[name])

    def _score(self, completions: list, arguments: dict[str, Any]) -> Scores:
        if self.failures is None:
            return score_all(self.rewards, copy.deepcopy(completions), **arguments)
        try:
            scores = score_all(self.failures.guarded, copy.deepcopy(completions), **arguments)
        except UserError as exc:
            raise self.failures.refuse(exc, completions, arguments) from exc
        rows = arguments.get(ROW_ID) or [""]
        self.failures.settle(completions, arguments, evaluating=rows[0].startswith("eval:"))
        return scores

    def save_last(self, problem: str) -> Path | None:
        """Keep the batch that is being trained on, the samples with the most extreme totals first; None if there is none."""
        if self.failures is None or self._completions is None:
            return None
        order = sorted(range(len(self._total)), key=lambda i: -abs(self._total[i] or 0.0))
        return self.failures.failed.save("gradient", problem, self._completions, self._arguments, first=order[:8], total=self._total)

    def take_held_out(self) -> list[dict]:
        """The held-out records since the last call."""
        records, self.held_out = self.held_out, []
        return records

    def take_dropped_share(self) -> float | None:
        """Share of the training completions since the last call that no update saw; None if there were none."""
        (scored, dropped), self._counts = self._counts, [0, 0]
        return dropped / scored if scored else None

    def _record(self, scores: Scores, completions: list, arguments: dict[str, Any]) -> None:
        rows = arguments.get(ROW_ID) or [""] * len(completions)
        judged = verdicts(self.rewards, scores, self.threshold)
        for i, row in enumerate(rows):
            if not row.startswith("eval:"):
                self._counts[0] += 1
                self._counts[1] += scores.total[i] is None
            else:
                each = {name: values[i] for name, values in scores.values.items()}
                self.held_out.append({ROW_ID: row, "completion": completions[i], "scores": each, "total": scores.total[i], "verdict": judged[i]})


class AdaptedReward:
    """What TRL calls: a named view on one column of the batch."""

    def __init__(self, batch: RewardBatch, name: str):
        self.batch = batch
        self.__name__ = name

    def __call__(self, completions: list, **arguments: Any) -> list[float | None]:
        return self.batch.column(self.__name__, completions, arguments)


def drop_unscorable(rewards: Sequence[BuiltReward], scores: Scores) -> dict[str, list[float | None]]:
    """The values by reward, with `None` in all of them wherever a required reward gave `None`."""
    required = [scores.values[r.name] for r in rewards if r.required]
    lost = [any(column[i] is None for column in required) for i in range(len(scores.total))]
    return {name: [None if gone else value for gone, value in zip(lost, column, strict=True)] for name, column in scores.values.items()}
