"""What shows that a gate file is the one that was written, and that the labels it rests on are still there.

Hashes without a key: they catch an edit, a merge that went wrong, a lost or exchanged file. They cannot stop someone who recomputes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from grpo_rlvr.inspection.jsonl import sha256
from grpo_rlvr.inspection.labels import LABELS, labels_path, load_judgements

AGAIN = "run: inspect_rewards.py gate CONFIG (it decides from samples, scores and labels)"


def sealed(gate: dict, folder: Path, gate_path: Path) -> dict:
    """`gate` with `labels` (which file, how many judgements, their hash) and `seal` (the hash of all the rest)."""
    judgements = load_judgements(folder)
    file = os.path.relpath(labels_path(folder), gate_path.parent)
    whole = {**gate, "labels": {"file": Path(file).as_posix(), "judgements": len(judgements), "sha256": _hash(judgements)}}
    return {**whole, "seal": _seal(whole)}


def is_sealed(gate: Mapping) -> bool:
    """Whether a value read from a file has the parts that `sealed` adds."""
    labels = gate.get("labels")
    return isinstance(gate.get("seal"), str) and isinstance(labels, Mapping) and all(isinstance(labels.get(k), str) for k in ("file", "sha256"))


def broken_seal(gate: Mapping, gate_path: Path, folder: Path, allowed: Collection[str]) -> tuple[str, str] | None:
    """What is wrong with a gate file and what to do; None if it is as it was written and its labels are still there.

    Raises:
        UserError: the labels file has lines that are no labels.
    """
    if gate["open"] and gate["reasons"]:
        return "it says open and gives reasons against it: it was edited by hand", AGAIN
    if _seal({k: v for k, v in gate.items() if k not in ("schema", "seal")}) != gate["seal"]:
        return "it is not as it was written: it was edited by hand, or two versions were mixed", AGAIN
    there = next((path for path in (gate_path.parent / gate["labels"]["file"], labels_path(folder)) if path.is_file()), None)
    if there is None:
        return f"the labels it rests on are gone: there is no {labels_path(folder)}", "bring labels.jsonl back, or read again, then gate CONFIG"
    judgements = load_judgements(there.parent)
    if _hash(judgements) != gate["labels"]["sha256"]:
        count = gate["labels"].get("judgements")
        return f"{there.name} changed since the gate was decided ({count} judgements then, {len(judgements)} now)", AGAIN
    read = {row["sample_id"] for row in judgements if row["label"] in LABELS and row["reviewer_kind"] in allowed}
    if len(read) < gate["counts"]["read"]:
        return f"it counts {gate['counts']['read']} samples that were read, and {there.name} has {len(read)}", AGAIN
    return None


def _hash(judgements: list[dict]) -> str:
    """Of what was said in the end, whatever the order of the lines."""
    return sha256(sorted([row["sample_id"], row["reviewer"], row["reviewer_kind"], row["label"], row.get("note", "")] for row in judgements))


def _seal(gate: Any) -> str:
    return sha256(json.loads(json.dumps(gate)))
