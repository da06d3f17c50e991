"""Held-out rows: a split that is the same everywhere, and prompts that stand on both sides."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from typing import Any


def held_out_rows(rows: Sequence[dict], share: float, seed: int) -> list[int]:
    """Indices of the held-out rows, ascending: the prompts with the smallest hashes, until `share` of the rows are reached.

    Neither the order of the file nor rows that are added move a prompt that stays within the share; prompts that are alike but for
    case and spaces go to the same side. At least one row stays on either side where there are two different prompts.
    """
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(normal_prompt(row["prompt"]), []).append(i)
    order = sorted(groups, key=lambda key: hashlib.sha256(f"{seed}\0{key}".encode("utf-8", "surrogatepass")).digest())
    wanted, chosen = max(1, round(share * len(rows))), []
    for key in order[: len(order) - 1]:
        if len(chosen) >= wanted:
            break
        chosen += groups[key]
    return sorted(chosen)


def normal_prompt(prompt: Any) -> str:
    """A prompt's text without differences of case and white space; signs stay, since they are the task in mathematics."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, ensure_ascii=False, default=str)
    return " ".join(unicodedata.normalize("NFC", text.replace("\\n", " ").replace("\\t", " ")).casefold().split())


def overlap(rows: Sequence[dict], held_out: Sequence[dict]) -> tuple[list[int], list[int]]:
    """Indices of held-out rows whose prompt is a training prompt: (exactly, but for case and white space)."""
    exact = {json.dumps(r["prompt"], sort_keys=True) for r in rows}
    normal = {normal_prompt(r["prompt"]) for r in rows}
    same = [i for i, r in enumerate(held_out) if json.dumps(r["prompt"], sort_keys=True) in exact]
    alike = [i for i, r in enumerate(held_out) if i not in set(same) and normal_prompt(r["prompt"]) in normal]
    return same, alike
