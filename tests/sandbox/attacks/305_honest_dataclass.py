# family: honest; goal: none
# A data class looks its own module up while it is made.
from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class State:
    n: int
    seen: list[int] = field(default_factory=list)

    def step(self) -> None:
        self.seen.append(self.n)
        self.n = self.n // 2 if self.n % 2 == 0 else 3 * self.n + 1


def collatz_peak(n: int) -> int:
    state = State(n)
    while state.n != 1:
        state.step()
    return max(state.seen + [1])
