"""Values of a log's line as they come out of JSON or a CSV file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

LARGEST = 1e150  # no metric is larger; beyond it squares overflow


def number(raw: Any) -> float | None:
    """A float of a JSON or CSV value, infinite beyond LARGEST; None for no value and for text that is no number."""
    if raw is None:
        return None
    try:
        value = float(raw)
    except OverflowError:
        value = math.inf if raw > 0 else -math.inf
    except (TypeError, ValueError):
        return None
    return math.copysign(math.inf, value) if abs(value) > LARGEST else value


def flat(row: Mapping[str, Any], above: str = "", depth: int = 4) -> dict[str, Any]:
    """Values inside objects by their path: {"rewards": {"exact": {"mean": 1}}} is rewards/exact/mean."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict) and depth:
            found |= flat(value, f"{above}{key}/", depth - 1)
        else:
            found[above + key] = value
    return found
