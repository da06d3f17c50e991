"""How much of the training rows `train.py init` holds out: enough to show something, and not too much of little."""

from __future__ import annotations

import math

USUAL = 0.1
WANTED = 32  # held-out rows below which an accuracy is known to within a fifth at best
MOST = 0.25  # of few rows training needs the larger part


def held_out_share(rows: int | None) -> float:
    """A tenth; of fewer rows what gives 32 of them, at most a quarter. None: not known how many there are."""
    if rows is None:
        return USUAL
    return max(USUAL, min(MOST, math.ceil(100 * WANTED / rows) / 100))
