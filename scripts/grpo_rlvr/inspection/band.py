"""`--keep-band`: the training rows whose sampled success rate lies in a band, as a data file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_rlvr.cli import write_text
from grpo_rlvr.config import Config
from grpo_rlvr.data import raw_lines
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.rates import Spread


def check_band(band: Sequence[float]) -> tuple[float, float]:
    """The two bounds; a UserError if they are none."""
    low, high = band
    if not (0 <= low < high <= 1):
        raise UserError("band", Problem("--keep-band", f"got {low:g} and {high:g}", "two success rates from 0 to 1, the lower first: 0.2 0.8"))
    return low, high


def choose_rows(per_prompt: Sequence[Mapping], low: float, high: float) -> list[int]:
    """Numbers of the prompts whose seen rate is in [low, high], in the order of the data."""
    return sorted(p["prompt_index"] for p in per_prompt if low <= p["rate"] <= high)


def certainty(per_prompt: Sequence[Mapping], spread: Spread, low: float, high: float) -> dict:
    """How far the seen rates can be trusted: the expected share of the kept whose own rate is in the band, and how many of the others' are."""
    chances = [(low <= p["rate"] <= high, spread.within(p["passed"], p["scored"], low, high)) for p in per_prompt]
    kept = [chance for inside, chance in chances if inside]
    return {
        "expected_inside": math.fsum(kept) / len(kept) if kept else None,
        "expected_missed": math.fsum(chance for inside, chance in chances if not inside),
    }


def write_band(config: Config, signal: Mapping, band: tuple[float, float], file: Path | None = None) -> dict:
    """Write the rows in the band, whole or not at all, and say how many and how sure.

    Returns:
        `low`, `high`, `file` (None if nothing is in the band), `kept`, `below`, `above`, `sampled`, `rows` (of the training file),
        `samples_per_prompt` (median), what `certainty` returns, and `use`.
    """
    low, high = band
    lines = raw_lines(config, "train")
    prompts = [p for p in signal["per_prompt"] if p["prompt_index"] < len(lines)]  # not those of recorded strangers
    kept = choose_rows(prompts, low, high)
    sizes = sorted(p["scored"] for p in prompts)
    result = {
        "low": low,
        "high": high,
        "file": None,
        "kept": len(kept),
        "below": sum(p["rate"] < low for p in prompts),
        "above": sum(p["rate"] > high for p in prompts),
        "sampled": len(prompts),
        "rows": len(lines),
        "samples_per_prompt": sizes[len(sizes) // 2] if sizes else 0,
        **(
            certainty(prompts, Spread(tuple(map(tuple, signal["spread"]))), low, high)
            if prompts
            else {"expected_inside": None, "expected_missed": 0.0}
        ),
        "use": "no sampled prompt is in the band: widen it, or sample more prompts (inspection.prompts)",
    }
    if kept:
        file = file or config.inspection_folder / f"train.band-{low:g}-{high:g}.jsonl"
        if file.exists() and file.resolve() == config.resolve(config.data.train).resolve():
            raise UserError("band", Problem("--band-file", f"{file} is the training file itself", "name another file"))
        write_text(file, "".join(lines[i] + "\n" for i in kept))
        place = os.path.relpath(file.absolute(), config.base)
        result |= {"file": str(file), "use": f"data: {{train: {place}}} in the config, then run again: the gate is about the data that is trained on"}
    return result


def describe(band: Mapping) -> str:
    """What `write_band` did, for people."""
    said = (
        f"band {band['low']:g} to {band['high']:g}: {band['kept']} of {band['sampled']} sampled prompts "
        f"({band['below']} below, {band['above']} above)"
    )
    if band["expected_inside"] is not None:
        said += (
            f"; with {band['samples_per_prompt']} samples each, {band['expected_inside']:.0%} of the kept are expected to be inside in truth, "
            f"and {band['expected_missed']:.1f} of those left out"
        )
    if band["sampled"] < band["rows"]:
        said += f"; {band['rows'] - band['sampled']} of the {band['rows']} rows were not sampled and are not in it"
        said += f" (inspection.prompts: {band['rows']} samples all)"
    return said + (f"\n  written: {band['file']}" if band["file"] else "") + f"\n  use: {band['use']}"
