"""Which checkpoint to resume from, and what a run folder already holds.

TRL's own resume takes the highest `checkpoint-N`, even one that a kill or a full disk cut short.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

MARK_OF_SAVING = "checkpoint-is-incomplete.txt"


def newest_complete(folder: Path) -> Path | None:
    """The checkpoint with the most steps that was written to its end; None if there is none."""
    found = []
    for path in folder.glob("checkpoint-*"):
        match = re.fullmatch(r"checkpoint-(\d+)", path.name)
        if match and is_complete(path):
            found.append((int(match[1]), path))
    return max(found)[1] if found else None


def is_complete(checkpoint: Path) -> bool:
    """Whether all parts are there and the state, which is written last, can be read."""
    if (checkpoint / MARK_OF_SAVING).exists() or not list(checkpoint.glob("rng_state*.pth")):
        return False
    # The optimizer is one file, or a folder of shards under FSDP and DeepSpeed.
    if not any(checkpoint.glob("optimizer*")) and not any(checkpoint.glob("global_step*")):
        return False
    try:
        return isinstance(step_of(checkpoint), int)
    except (OSError, ValueError, KeyError):
        return False


def step_of(checkpoint: Path) -> int:
    """The optimizer step at which the checkpoint was saved."""
    return json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))["global_step"]


def set_aside_incomplete(folder: Path) -> list[str]:
    """Rename checkpoints that were cut short, so that nothing takes them for whole ones; returns their names."""
    moved = []
    for path in sorted(folder.glob("checkpoint-*")):
        if re.fullmatch(r"checkpoint-\d+", path.name) and not is_complete(path):
            target, n = path.with_name(path.name.replace("checkpoint-", "incomplete-")), 1
            while target.exists():
                n += 1
                target = path.with_name(f"{path.name.replace('checkpoint-', 'incomplete-')}.{n}")
            path.rename(target)
            moved.append(path.name)
    return moved
