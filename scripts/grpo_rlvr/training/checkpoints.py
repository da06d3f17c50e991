"""Which checkpoint to resume from, and what a run folder already holds.

TRL's own resume takes the highest `checkpoint-N`, even one that a kill or a full disk cut short.
"""

from __future__ import annotations

import json
import re
import zipfile
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
    """Whether all parts are there, none was cut short, and the state, which is written last, can be read."""
    if (checkpoint / MARK_OF_SAVING).exists() or not list(checkpoint.glob("rng_state*.pth")):
        return False
    # The optimizer is one file, or a folder of shards under FSDP and DeepSpeed.
    if not any(checkpoint.glob("optimizer*")) and not any(checkpoint.glob("global_step*")):
        return False
    try:
        # Without its schedule transformers would begin with an empty optimizer, and say nothing.
        if (checkpoint / "optimizer.pt").exists() and not ((checkpoint / "scheduler.pt").exists() and _has_weights(checkpoint)):
            return False
        return isinstance(step_of(checkpoint), int) and all(_is_whole(path) for path in checkpoint.iterdir() if path.is_file())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):  # whatever lies there in the place of a state
        return False


def _has_weights(checkpoint: Path) -> bool:
    """Whether the weights are there, of a sharded model each file that its index names."""
    for index in checkpoint.glob("*.index.json"):
        if not all((checkpoint / name).exists() for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()):
            return False
    return any(any(checkpoint.glob(pattern)) for pattern in ("*.safetensors", "*.bin"))


def _is_whole(path: Path) -> bool:
    """Whether a file of tensors has its end: after a loss of power a file may be there, renamed and named, and empty."""
    if path.suffix in (".pt", ".pth"):
        return zipfile.is_zipfile(path)  # looks for the directory at the end
    if path.suffix == ".safetensors":
        with open(path, "rb") as source:
            start = source.read(8)
            size = int.from_bytes(start, "little")
            if len(start) < 8 or size > path.stat().st_size:
                return False
            header = json.loads(source.read(size))
        ends = (tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__")
        return path.stat().st_size == 8 + size + max(ends, default=0)
    return True


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
