"""How far a reader's labels and the reward's verdicts agree."""

from __future__ import annotations

import math
from collections.abc import Sequence

from grpo_rlvr.intervals import clopper_pearson, upper_bound_of_none


def measure_agreement(labels: Sequence[str], verdicts: Sequence[bool | None]) -> dict:
    """Compare aligned labels (pass, fail, unsure) and verdicts (True, False, None = could not be scored).

    Returns:
        `table` (label -> verdict -> count), `compared` (pairs with a decided label and a verdict), `agreements`,
        `disagreements`, `agreement` (share, None without pairs) with its exact 95% `interval`, `kappa` (None where chance
        agreement is total), `none_share`, `unsure_share`, and `upper_bounds` (without a disagreement: with 95% confidence fewer than
        this share of the completions that the reward passes, or fails, are judged wrongly). One bound a verdict, because the
        samples to read are chosen half and half, not as often as the model writes them.
    """
    table = {label: {"pass": 0, "fail": 0, "none": 0} for label in ("pass", "fail", "unsure")}
    for label, verdict in zip(labels, verdicts, strict=True):
        table[label][word(verdict)] += 1
    both, neither = table["pass"]["pass"], table["fail"]["fail"]
    agreements, disagreements = both + neither, table["pass"]["fail"] + table["fail"]["pass"]
    n = agreements + disagreements
    total = len(labels)
    return {
        "table": table,
        "compared": n,
        "agreements": agreements,
        "disagreements": disagreements,
        "agreement": agreements / n if n else None,
        "interval": list(clopper_pearson(agreements, n)),
        "kappa": _kappa(both, table["pass"]["fail"], table["fail"]["pass"], neither),
        "none_share": sum(row["none"] for row in table.values()) / total if total else 0.0,
        "unsure_share": sum(table["unsure"].values()) / total if total else 0.0,
        "upper_bounds": {"pass": upper_bound_of_none(both), "fail": upper_bound_of_none(neither)} if n and disagreements == 0 else None,
    }


def word(verdict: bool | None) -> str:
    """pass, fail or none."""
    return "none" if verdict is None else "pass" if verdict else "fail"


def disagrees(label: str, verdict: bool | None) -> bool:
    """Whether a reader's label and a verdict contradict each other; unsure and unscored contradict nothing."""
    return verdict is not None and label in ("pass", "fail") and (label == "pass") != verdict


def correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson's r; None for fewer than two pairs or a constant side."""
    n = len(xs)
    if n < 2:
        return None
    mean_x, mean_y = math.fsum(xs) / n, math.fsum(ys) / n
    var_x, var_y = math.fsum((x - mean_x) ** 2 for x in xs), math.fsum((y - mean_y) ** 2 for y in ys)
    if var_x <= 1e-18 or var_y <= 1e-18:
        return None
    return math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / math.sqrt(var_x * var_y)


def _kappa(both: int, pass_fail: int, fail_pass: int, neither: int) -> float | None:
    n = both + pass_fail + fail_pass + neither
    if n == 0:
        return None
    seen = (both + neither) / n
    chance = ((both + pass_fail) * (both + fail_pass) + (neither + pass_fail) * (neither + fail_pass)) / n**2
    return None if chance == 1 else (seen - chance) / (1 - chance)
