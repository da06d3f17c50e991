"""How far a reader's labels and the reward's verdicts agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from grpo_rlvr.intervals import clopper_pearson, upper_bound_of_none, wilson


def measure_agreement(labels: Sequence[str], verdicts: Sequence[bool | None]) -> dict:
    """Compare aligned labels (pass, fail, unsure) and verdicts (True, False, None = could not be scored).

    Returns:
        `table` (label -> verdict -> count), `compared` (pairs with a decided label and a verdict), `agreements`,
        `disagreements`, `agreement` (share, None without pairs) with its exact 95% `interval`, `by_verdict` (the same of what the reward
        passes and of what it fails), `kappa` (None where chance agreement is total), `none_share`, `unsure_share`, and `upper_bounds`
        (without a disagreement: with 95% confidence fewer than this share of the completions that the reward passes, or fails, are judged
        wrongly). One bound a verdict, because the samples to read are chosen half and half, not as often as the model writes them.
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
        "by_verdict": {"pass": _share(both, both + table["fail"]["pass"]), "fail": _share(neither, neither + table["pass"]["fail"])},
        "kappa": cohens_kappa([(label, word(v)) for label, v in zip(labels, verdicts, strict=True) if label != "unsure" and v is not None]),
        "none_share": sum(row["none"] for row in table.values()) / total if total else 0.0,
        "unsure_share": sum(table["unsure"].values()) / total if total else 0.0,
        "upper_bounds": {"pass": upper_bound_of_none(both), "fail": upper_bound_of_none(neither)} if n and disagreements == 0 else None,
    }


def weigh_agreement(
    sample_ids: Sequence[str], labels: Sequence[str], verdicts: Sequence[bool | None], all_verdicts: Sequence[bool | None], weights: Mapping | None
) -> dict:
    """The agreement among all completions that the model wrote, from the ones that were read.

    Those to read are not chosen as often as the model writes their like, so each stands for as many as its stratum has for one that was read.

    Args:
        all_verdicts: of every sample, read or not.
        weights: of the selection, sample id -> how many samples it stands for; None where it says none, or lacks one. Then the strata are
            the verdicts: a sample that the reward passes stands for (samples that pass) / (of these, read).

    Returns:
        `agreement` with `interval` (Wilson's at the effective size (sum w)^2 / sum w^2: Kish, Survey Sampling, 1965), `effective_size`,
        `weights` (selection or verdict), and `upper_bound`: without a disagreement, the share of all completions that are judged wrongly is
        below it with 95% confidence (the sum of the bounds of both verdicts at 97.5%, times their shares). None where nothing compares.
    """
    pairs = [(i, label, v) for i, label, v in zip(sample_ids, labels, verdicts, strict=True) if label != "unsure" and v is not None]
    known = weights is not None and all(i in weights for i, _, _ in pairs)
    there, read = Counter(all_verdicts), Counter(v for _, _, v in pairs)
    each = [float(weights[i]) if known else there[v] / read[v] for i, _, v in pairs]
    total = math.fsum(each)
    result = {"weights": "selection" if known else "verdict", "agreement": None, "interval": [0.0, 1.0], "effective_size": 0.0, "upper_bound": None}
    if not pairs or total <= 0:
        return result
    agree = [not disagrees(label, v) for _, label, v in pairs]
    share = min(1.0, math.fsum(w for w, same in zip(each, agree, strict=True) if same) / total)
    size = total**2 / math.fsum(w * w for w in each)
    scored = there[True] + there[False]
    # Nothing read of a verdict bounds nothing: 1.
    bound = math.fsum(there[v] / scored * (1 - 0.025 ** (1 / read[v]) if read[v] else 1.0) for v in (True, False)) if scored else 1.0
    return {
        **result,
        "agreement": share,
        "interval": list(wilson(share, size)),
        "effective_size": size,
        "upper_bound": min(1.0, bound) if all(agree) else None,
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


def cohens_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Agreement beyond chance of two who judged the same things, for any number of categories; None for no pairs or total chance agreement.

    (p_o - p_e) / (1 - p_e), Cohen, Educational and Psychological Measurement 20 (1960) 37-46.
    """
    n = len(pairs)
    if n == 0:
        return None
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    seen = sum(a == b for a, b in pairs) / n
    chance = sum(first[name] * second[name] for name in first) / n**2
    return None if chance == 1 else (seen - chance) / (1 - chance)


def _share(agreements: int, n: int) -> dict:
    return {"read": n, "agreements": agreements, "agreement": agreements / n if n else None, "interval": list(clopper_pearson(agreements, n))}
