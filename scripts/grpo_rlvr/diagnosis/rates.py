"""Learning rates for patches."""

from __future__ import annotations

from grpo_rlvr.diagnosis.run import Run


def half(run: Run) -> float | str:
    """Half of the highest learning rate seen or set; words where neither is known."""
    rate = max(run.series("learning_rate").values, default=0.0) or (run.setting("learning_rate") if run.known else 0.0)
    return float(f"{rate / 2:.2g}") if rate else "half of the present rate"


def double(run: Run) -> float | str:
    """Twice the highest learning rate seen."""
    rate = max(run.series("learning_rate").values, default=0.0)
    return float(f"{2 * rate:.2g}") if rate else "twice the present rate"
