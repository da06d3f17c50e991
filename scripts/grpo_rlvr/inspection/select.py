"""Which samples to read: half that pass, half that fail, nothing rare lost, nothing twice, and known weights.

A weight says how many of all samples a selected one stands for; together they are as many as there are samples. With them, what is seen in
the reading (half passes, rare kinds more often) becomes an estimate for what the model writes.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.cli import write_json
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.samples import load_samples
from grpo_rlvr.inspection.strata import Unit, allot, content, draw, make_units

__all__ = [
    "content", "count_distinct", "load_selection", "load_weights", "save_selection", "select_rows", "select_samples",
]  # fmt: skip


def select_rows(
    samples: Sequence[dict],
    scores: Sequence[Mapping],
    count: int,
    seed: int,
    keep: Collection[str] = (),
    weights: Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:
    """Choose up to `count` samples to read, in reading order: `sample_id`, `stratum`, `weight`, and `kept` for those of `keep`.

    Samples in `keep` (those already labelled) come first and stay, so that no reading is lost when a mended reward moves the strata; new
    ones top them up. Equal completions of one prompt are read once, and nearly equal ones too where there are enough others. The order
    does not give the verdicts away.

    The weights combine two estimates, each fair for itself, in the proportion of their readings. The first takes the kept ones for what
    they stood for when they were chosen (`weights`). The second takes the kept ones as themselves and lets the new ones, drawn by chance
    from all the others, stand for the others.

    Args:
        scores: aligned with `samples`: `verdict`, and `scores` where components are to be compared.
        weights: sample_id -> weight in the selection that the kept ones were chosen for (`load_weights`).
    """
    units = make_units(samples, scores, near=True)
    if len(units) < count:
        units = make_units(samples, scores, near=False)
    ids = [s["sample_id"] for s in samples]
    kept = [i for i in range(len(samples)) if ids[i] in keep]
    known = [unit for unit in units if any(ids[i] in keep for i in unit.members)]
    fresh = [unit for unit in units if not any(ids[i] in keep for i in unit.members)]
    have = {v: sum(u.verdict == v for u in known) for v in ("pass", "fail", "none")}
    room = max(0, count - len(kept))
    drawn = _draw_all(fresh, have, room, seed)
    shares = _certain(known, kept)
    old = _scaled({i: weights[ids[i]] for i in kept if ids[i] in weights}, len(samples)) if weights else {}
    new = _standing_for(drawn, fresh)
    rows = [
        {"sample_id": ids[i], "stratum": unit.stratum, "weight": weight, "kept": i in shares}
        for i, unit, weight in _combined(kept, units, shares, old, new, len(samples))
    ]
    first, rest = [r for r in rows if r["kept"]], [r for r in rows if not r["kept"]]
    random.Random(f"selection order {seed}").shuffle(rest)  # noqa: S311  (draws samples)
    return [*first, *rest]


def select_samples(samples: Sequence[dict], verdicts: Sequence[bool | None], count: int, seed: int, keep: Collection[str] = ()) -> list[str]:
    """The ids that `select_rows` chooses by verdict alone."""
    return [row["sample_id"] for row in select_rows(samples, [{"verdict": v} for v in verdicts], count, seed, keep)]


def save_selection(folder: Path, rows: Sequence[dict] | Sequence[str], seed: int, population: int | None = None) -> None:
    """Write `selection.json`: `sample_ids` in reading order, and `rows` with stratum and weight (for mere ids there are none)."""
    ids = [row if isinstance(row, str) else row["sample_id"] for row in rows]
    kept = [{**row, "weight": round(row["weight"], 6)} for row in rows if not isinstance(row, str)]
    write_json(
        folder / "selection.json", "selection", 1, {"seed": seed, "count": len(ids), "population": population, "sample_ids": ids, "rows": kept}
    )


def load_selection(folder: Path) -> list[dict]:
    """The selected samples in reading order; a UserError if `run` has not chosen any."""
    path = folder / "selection.json"
    try:
        ids = json.loads(path.read_text(encoding="utf-8"))["sample_ids"]
        if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
            raise TypeError("sample_ids is no list of ids")
    except FileNotFoundError:
        raise UserError("selection", Problem(str(path), "no samples have been selected yet", "run: inspect_rewards.py run CONFIG")) from None
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise UserError("selection", Problem(str(path), f"cannot be read: {str(exc)[:80]}", "run: inspect_rewards.py run CONFIG")) from exc
    samples = {s["sample_id"]: s for s in load_samples(folder)}
    if any(i not in samples for i in ids):
        raise UserError("selection", Problem(str(path), "it names samples that are not there", "run: inspect_rewards.py run CONFIG"))
    return [samples[i] for i in ids]


def load_weights(folder: Path) -> dict[str, float]:
    """sample_id -> how many samples it stands for; empty where there is no selection, or one without weights."""
    try:
        rows = json.loads((folder / "selection.json").read_text(encoding="utf-8"))["rows"]
        return {row["sample_id"]: float(row["weight"]) for row in rows if float(row["weight"]) > 0}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def count_distinct(samples: Sequence[dict]) -> int:
    """How many there are to read at most."""
    return len({content(s) for s in samples})


def _draw_all(fresh: Sequence[Unit], have: dict[str, int], room: int, seed: int) -> list[tuple[Unit, float]]:
    """New units by verdict and stratum, each with the probability with which it was drawn."""
    strata: dict[str, dict[str, list[Unit]]] = {"pass": {}, "fail": {}, "none": {}}
    for unit in fresh:
        strata[unit.verdict].setdefault(unit.stratum, []).append(unit)
    quotas = _quotas({v: sum(map(len, parts.values())) for v, parts in strata.items()}, have, sum(have.values()) + room)
    drawn = []
    for verdict, parts in strata.items():
        given = allot({name: len(units) for name, units in parts.items()}, quotas[verdict])
        for name in sorted(parts):
            drawn += draw(parts[name], given[name], random.Random(f"selection {seed} {name}"))  # noqa: S311  (draws samples)
    return drawn


def _quotas(available: dict[str, int], have: dict[str, int], count: int) -> dict[str, int]:
    """How many new ones to take of each verdict: a tenth unscored, else halves; what one side lacks the other gives."""
    room = max(0, count - sum(have.values()))
    none = min(available["none"], max(0, -(-count // 10) - have["none"]), room)
    room -= none
    half = (have["pass"] + have["fail"] + room) // 2
    passes = min(available["pass"], max(0, half - have["pass"]), room)
    fails = min(available["fail"], room - passes)
    passes = min(available["pass"], room - fails)
    none += min(available["none"] - none, room - passes - fails)
    return {"pass": passes, "fail": fails, "none": none}


def _certain(known: Sequence[Unit], kept: Sequence[int]) -> dict[int, float]:
    """Kept sample -> the samples that are like it (shared among several kept ones of a unit): they have been read."""
    chosen, shares = set(kept), {}
    for unit in known:
        inside = [i for i in unit.members if i in chosen]
        shares.update(dict.fromkeys(inside, len(unit.members) / len(inside)))
    return shares


def _standing_for(drawn: Sequence[tuple[Unit, float]], fresh: Sequence[Unit]) -> dict[int, tuple[Unit, float]]:
    """Drawn sample -> its unit and how many of the fresh samples it stands for.

    By inverse probability, scaled to the number of samples in its stratum. A stratum from which none was drawn is stood for by the others
    of its verdict, or by all.
    """
    size: dict[str, int] = defaultdict(int)
    for unit in fresh:
        size[unit.stratum] += len(unit.members)
    raw: dict[str, float] = defaultdict(float)
    for unit, probability in drawn:
        raw[unit.stratum] += len(unit.members) / probability
    verdict_of = {unit.stratum: unit.verdict for unit in fresh}
    left = [name for name in size if name not in raw]
    target = {name: float(size[name]) for name in raw}
    for name in left:
        same = [other for other in raw if verdict_of[other] == verdict_of[name]] or list(raw)
        total = sum(size[other] for other in same)
        for other in same:
            target[other] += size[name] * size[other] / total
    return {unit.members[0]: (unit, len(unit.members) / probability * target[unit.stratum] / raw[unit.stratum]) for unit, probability in drawn}


def _combined(
    kept: Sequence[int],
    units: Sequence[Unit],
    shares: Mapping[int, float],
    old: Mapping[int, float],
    new: Mapping[int, tuple[Unit, float]],
    population: int,
) -> list[tuple[int, Unit, float]]:
    """(sample, unit, weight) of all that are to be read; the weights add up to the population."""
    unit_of = {i: unit for unit in units for i in unit.members}
    trust = len(old) / (len(kept) + len(new)) if old else 0.0
    rest = population - sum(shares.values())
    if kept and not new and rest > 0:
        # Nothing was drawn for the others: the kept ones stand for them, as they did before or by verdict.
        trust, shares = (1.0, shares) if old else (0.0, _by_verdict(kept, units))
    rows = [(i, unit_of[i], trust * old.get(i, 0.0) + (1 - trust) * shares[i]) for i in kept]
    rows += [(i, unit, (1 - trust) * weight) for i, (unit, weight) in new.items()]
    scale = population / sum(weight for *_, weight in rows) if rows else 1.0
    return [(i, unit, weight * scale) for i, unit, weight in rows]


def _by_verdict(kept: Sequence[int], units: Sequence[Unit]) -> dict[int, float]:
    """Kept ones of unknown weight: each stands for its part of the samples with its verdict."""
    verdict_of = {i: unit.verdict for unit in units for i in unit.members}
    every, read = Counter(verdict_of.values()), Counter(verdict_of[i] for i in kept)
    return {i: every[verdict_of[i]] / read[verdict_of[i]] for i in kept}


def _scaled(weights: Mapping[int, float], total: int) -> dict[int, float]:
    every = sum(weights.values())
    return {i: w * total / every for i, w in weights.items()} if every else {}
