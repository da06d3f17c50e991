"""Does vLLM sample from the weights that are trained? Told from what TRL logs at every step, since nothing else would say so.

TRL compares the log-probability that vLLM gave each sampled token with the trainer's own. While the weights are the same, the difference is
that of two programs computing the same thing: small, and the same size from the first step to the last. When new weights do not reach vLLM
(a transfer that answers "done" and changes nothing, some layers left out, an adapter that is not merged), vLLM goes on sampling from the old
model without an error, and the difference grows with every update.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

DIFFERENCE = "sampling/sampling_logp_difference/mean"
RATIO = "sampling/importance_sampling_ratio/mean"

BASELINE_LINES = 3  # the least of the first lines: the first is sampled before any update
WINDOW = 3
SUSPECT_TIMES, SUSPECT_NATS = 4.0, 0.005
STALE_TIMES, STALE_NATS = 10.0, 0.05
START_NATS = 0.1  # no two correct programs differ by this much a token
RATIO_LOW = 0.5


@dataclass(frozen=True)
class SyncFinding:
    """`code`: vllm-mismatch (from the first step: settings), vllm-drift (grows), vllm-stale (grown beyond doubt), vllm-masked."""

    code: str
    message: str
    fix: str
    stop: bool = False


class SyncMonitor:
    """Sees the logged steps in order; says each thing once, and a drift again when it has doubled."""

    def __init__(self, earlier: Iterable[Mapping[str, object]] = ()):
        """Args: earlier: the lines of a run that is resumed; they hold the difference before any update."""
        known = [float(line[DIFFERENCE]) for line in earlier if isinstance(line.get(DIFFERENCE), (int, float))]
        self.first = known[:BASELINE_LINES]
        self.recent: deque[float] = deque(maxlen=WINDOW)
        self.ratios: deque[float] = deque(maxlen=WINDOW)
        self.said: dict[str, float] = {}

    @property
    def baseline(self) -> float | None:
        """Difference in nats a token while the weights were the same."""
        return min(self.first) if self.first else None

    def see(self, line: Mapping[str, object]) -> SyncFinding | None:
        """What there is to say after this line; None for most."""
        difference, ratio = line.get(DIFFERENCE), line.get(RATIO)
        if not isinstance(difference, (int, float)):
            return None
        if len(self.first) < BASELINE_LINES:
            self.first.append(float(difference))
        self.recent.append(float(difference))
        if isinstance(ratio, (int, float)):
            self.ratios.append(float(ratio))
        return self._mismatch() or self._drift() or self._masked()

    def _mismatch(self) -> SyncFinding | None:
        if len(self.first) > 1 or self.first[0] < START_NATS:
            return None
        message = f"before any update vLLM's and the trainer's log-probabilities differ by {self.first[0]:.3f} nats a token"
        fix = "a setting differs between the two: temperature, dtype, quantisation, chat template, or a server that serves another model"
        return self._once("vllm-mismatch", self.first[0], message, fix)

    def _drift(self) -> SyncFinding | None:
        if len(self.recent) < WINDOW:
            return None
        now, base = statistics.median(self.recent), max(self.baseline, 1e-6)
        grown = (
            f"vLLM's and the trainer's log-probabilities differ by {now:.4f} nats a token, {now / base:.0f} times the {base:.4f} of the first steps"
        )
        if now > STALE_NATS and now > STALE_TIMES * base:
            message = f"vLLM does not follow the training: {grown}"
            fix = "its weights are not (or not all) updated: check the weight transfer, LoRA merging and versions; run.folder's checkpoint is good"
            return self._once("vllm-stale", now, message, fix, stop=True)
        if now > SUSPECT_NATS and now > SUSPECT_TIMES * base:
            return self._once("vllm-drift", now, f"{grown}; while the weights reach vLLM this does not grow", "watch it; see references/scaling.md")
        return None

    def _masked(self) -> SyncFinding | None:
        if len(self.ratios) < WINDOW or statistics.median(self.ratios) > RATIO_LOW:
            return None
        mean = statistics.median(self.ratios)
        message = f"the importance ratio, after clipping, is {mean:.2f} on average: most of the gradient is masked away"
        return self._once("vllm-masked", mean, message, "set vllm_importance_sampling_mode: token_truncate, and delete top_p, top_k and min_p")

    def _once(self, code: str, value: float, message: str, fix: str, stop: bool = False) -> SyncFinding | None:
        if code in self.said and not (code == "vllm-drift" and value > 2 * self.said[code]):
            return None
        self.said[code] = value
        return SyncFinding(code, message, fix, stop)
