"""Which samples to read: half that pass, half that fail, nothing rare lost, no completion twice."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Collection, Sequence
from pathlib import Path

from grpo_rlvr.cli import write_json
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.agreement import word
from grpo_rlvr.inspection.jsonl import canonical
from grpo_rlvr.inspection.samples import load_samples


def select_samples(samples: Sequence[dict], verdicts: Sequence[bool | None], count: int, seed: int, keep: Collection[str] = ()) -> list[str]:
    """Choose up to `count` samples to read and return their ids in reading order.

    Strata are verdict and finish. Samples in `keep` (those already labelled) come first, so that reading is not lost when a mended reward
    moves the strata. Equal completions of one prompt are read once.

    Args:
        verdicts: aligned with `samples`; the order returned does not give them away.
    """
    kept = [i for i, s in enumerate(samples) if s["sample_id"] in keep]
    seen = {content(samples[i]) for i in kept}
    fresh = []
    for i, sample in enumerate(samples):
        if content(sample) not in seen:
            seen.add(content(sample))
            fresh.append(i)
    strata: dict[str, dict[str, list[int]]] = {"pass": {}, "fail": {}, "none": {}}
    for i in _spread_over_prompts(fresh, samples, seed):
        strata[word(verdicts[i])].setdefault(samples[i]["finish"], []).append(i)
    have = {name: sum(word(verdicts[i]) == name for i in kept) for name in strata}
    quotas = _quotas({name: sum(map(len, parts.values())) for name, parts in strata.items()}, have, count)
    chosen = [i for name, parts in strata.items() for i in _from_parts(parts, quotas[name])]
    random.Random(f"selection order {seed}").shuffle(chosen)
    return [samples[i]["sample_id"] for i in [*kept, *chosen]]


def save_selection(folder: Path, ids: Sequence[str], seed: int) -> None:
    write_json(folder / "selection.json", "selection", 1, {"seed": seed, "count": len(ids), "sample_ids": list(ids)})


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


def load_weights(folder: Path) -> dict[str, float] | None:
    """How many samples each selected one stands for, by its id, if `selection.json` says so under `weights`; else None."""
    try:
        weights = json.loads((folder / "selection.json").read_text(encoding="utf-8")).get("weights")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    fine = isinstance(weights, dict) and all(isinstance(w, int | float) and not isinstance(w, bool) and 0 < w < math.inf for w in weights.values())
    return weights if fine else None


def count_distinct(samples: Sequence[dict]) -> int:
    """How many there are to read at most."""
    return len({content(s) for s in samples})


def content(sample: dict) -> str:
    """What a reader sees; a second sample with the same is not read again."""
    return canonical([sample["prompt"], sample["completion"]])


def _spread_over_prompts(indices: Sequence[int], samples: Sequence[dict], seed: int) -> list[int]:
    """Shuffled, then taken in turn from each prompt, so that no prompt fills the reading."""
    shuffled = list(indices)
    random.Random(f"selection {seed}").shuffle(shuffled)
    turns: dict[int, int] = {}
    order = []
    for place, i in enumerate(shuffled):
        prompt = samples[i]["prompt_index"]
        order.append((turns.get(prompt, 0), place, i))
        turns[prompt] = turns.get(prompt, 0) + 1
    return [i for _, _, i in sorted(order)]


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


def _from_parts(parts: dict[str, list[int]], quota: int) -> list[int]:
    """`quota` items from the finish strata: a rare one gives up to a tenth (at least one), the rest by size."""
    smallest_first = sorted(parts, key=lambda name: (len(parts[name]), name))
    total = sum(map(len, parts.values()))
    taken, left = [], quota
    for name in smallest_first[:-1]:
        share = round(quota * len(parts[name]) / total) if total else 0
        take = min(len(parts[name]), max(share, 1, quota // 10), left)
        taken += parts[name][:take]
        left -= take
    if smallest_first:
        taken += parts[smallest_first[-1]][:left]
        left = quota - len(taken)
    spare = [i for name in smallest_first for i in parts[name] if i not in set(taken)]
    return taken + spare[:left]
