"""Where a step's time goes: rollout, reward, update. From the moments TRL tells of, so nothing in TRL is replaced."""

from __future__ import annotations

import time
from collections.abc import Callable


class Timeline:
    """Adds up the seconds of three parts of the steps since the last `take`.

    A (sub)step begins; if it generates, the rewards are called, which ends the rollout; what follows until the (sub)step's end is the update.
    So "rollout" holds generation, weight transfer to vLLM and the log-probabilities that TRL computes before it scores, and a substep that
    generates nothing is all "update". What lies between steps (evaluation, saving) is in none of them.
    """

    PARTS = ("rollout", "reward", "update")

    def __init__(self, now: Callable[[], float] = time.perf_counter):
        self.now = now
        self.seconds = dict.fromkeys(self.PARTS, 0.0)
        self._mark: float | None = None  # None between steps

    def step_begins(self) -> None:
        self._mark = self.now()

    def reward_begins(self) -> None:
        self._until_now("rollout")

    def reward_ends(self) -> None:
        self._until_now("reward")

    def substep_ends(self) -> None:
        self._until_now("update")

    def step_ends(self) -> None:
        self._until_now("update")
        self._mark = None

    def take(self) -> dict[str, float]:
        """Seconds by part since the last call."""
        seconds, self.seconds = self.seconds, dict.fromkeys(self.PARTS, 0.0)
        return seconds

    def _until_now(self, part: str) -> None:
        if self._mark is not None:
            now = self.now()
            self.seconds[part] += now - self._mark
            self._mark = now


def shares(seconds: dict[str, float]) -> dict[str, float | None]:
    """`share_rollout`, `share_reward`, `share_update`: between 0 and 1, together 1; None where no time was measured."""
    total = sum(seconds.values())
    return {f"share_{part}": round(s / total, 4) if total > 0 else None for part, s in seconds.items()}
