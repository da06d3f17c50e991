"""One JSON line a logged step, in `train/logs/progress.jsonl`, that a kill neither loses nor doubles."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path

from grpo_rlvr.cli import write_text

FIRST_KEYS = ("step", "loss", "lr", "mem_gb", "temp_c")
OWN_KEYS = (
    "eta_s", "gpu_used_gb", "tokens_per_s", "share_rollout", "share_reward", "share_update", "dropped_share", "reward_seconds", "nonfinite",
)  # fmt: skip


class ProgressLog:
    """Appends lines that are on disk before the next checkpoint is, and goes back to a checkpoint's step on resume."""

    def __init__(self, path: Path):
        self.path = path

    def append(self, line: dict) -> str:
        """Write one line, flushed to the disk, and return it as text."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(line, allow_nan=False)
        with open(self.path, "a", encoding="utf-8", errors="backslashreplace") as out:
            out.write(text + "\n")
            out.flush()
            os.fsync(out.fileno())
        return text

    def rewind(self, step: int) -> int:
        """Drop the lines after `step` and a line that a kill cut short; returns how many went.

        The steps after the last checkpoint are trained again, so their lines come again.
        """
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines() if self.path.exists() else []
        kept = [line for line in lines if (at := _step(line)) is not None and at <= step]
        if len(kept) < len(lines):
            write_text(self.path, "".join(line + "\n" for line in kept))
        return len(lines) - len(kept)

    def steps(self) -> list[int]:
        """The steps of all whole lines."""
        return [line["step"] for line in self.lines()]

    def lines(self) -> list[dict]:
        """All whole lines."""
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines() if self.path.exists() else []
        return [json.loads(line) for line in lines if _step(line) is not None]

    def last_step(self) -> int:
        """The step of the last whole line; 0 if there is none."""
        return max(self.steps(), default=0)


def progress_line(logs: dict, step: int, mem_gb: float | None, temp_c: float | None, eta_s: float | None) -> dict:
    """The line for one logged step: the five keys that pollers expect, then TRL's metrics under TRL's own names.

    Args:
        logs: what TRL's trainer logged. Values that JSON has no number for (NaN, infinity) become null and are named
            under `nonfinite`.
        mem_gb: peak memory of this process, GPU memory where there is a GPU, in GB of 10^9 bytes.
        temp_c: GPU temperature in degrees Celsius, None where it cannot be read.
        eta_s: seconds to the end at the pace so far.
    """
    line = {"step": step, "loss": logs.get("loss", logs.get("train_loss")), "lr": logs.get("learning_rate"), "mem_gb": mem_gb, "temp_c": temp_c}
    # A reward may log a metric under any name; ours keep theirs.
    own = (*FIRST_KEYS, *OWN_KEYS)
    line.update({f"metric/{k}" if k in own else k: v for k, v in logs.items() if k not in ("loss", "learning_rate")})
    line["eta_s"] = eta_s
    odd = [k for k, v in line.items() if isinstance(v, float) and not math.isfinite(v)]
    line.update(dict.fromkeys(odd))
    if odd:
        line["nonfinite"] = odd
    return line


class Pace:
    """Seconds a step, from wall time between logged steps, so that everything between two steps counts."""

    def __init__(self) -> None:
        self.started: tuple[float, int] | None = None

    def eta_s(self, step: int, max_steps: int) -> float | None:
        """Seconds left; None until two steps have been seen."""
        now = time.monotonic()
        if self.started is None:
            self.started = (now, step)
            return None
        since, first = self.started
        return round((now - since) / (step - first) * (max_steps - step), 1) if step > first else None


def _step(line: str) -> int | None:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return None
