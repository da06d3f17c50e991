"""What of TRL's memory use depends on its version; read in the wheels 0.16 to 1.16."""

from __future__ import annotations

import re
from dataclasses import dataclass

from grpo_rlvr.errors import Problem, UserError


@dataclass(frozen=True)
class Era:
    """`head`: how the loss sees the vocabulary; `sleeps`: whether vLLM's sleep mode is there; defaults where the config is silent."""

    since: tuple[int, int]
    head: str
    liger: bool
    sleeps: bool
    completion: int
    beta: float
    colocate: bool

    @property
    def label(self) -> str:
        return {"chunked": "log-probabilities in tiles, no full logits", "logits": "full float32 logits"}[self.head]


ERAS = (
    Era((0, 14), "logits", False, False, 256, 0.04, False),
    Era((0, 18), "logits", True, False, 256, 0.04, False),
    Era((0, 19), "logits", True, False, 256, 0.0, False),
    Era((0, 23), "logits", True, True, 256, 0.0, False),
    Era((1, 0), "logits", True, True, 256, 0.0, True),
    Era((1, 10), "logits", True, True, 512, 0.0, True),
    Era((1, 14), "logits", True, True, 512, 0.0, True),
    Era((1, 15), "chunked", False, True, 512, 0.0, True),
)
NOW = ERAS[-1]


def eras_markdown() -> str:
    """The table of references/grpo-memory.md; of each version on, until the next line."""
    lines = [
        "| TRL from | loss | Liger's tiles | vLLM's sleep mode | `vllm_mode` | `max_completion_length` | `beta` |",
        "|---|---|---|---|---|---|---|",
    ]
    for era in ERAS:
        liger = "with its flag" if era.liger else "not needed" if era.head == "chunked" else "no"
        mode = "`colocate`" if era.colocate else "`server`"
        cells = (f"{era.since[0]}.{era.since[1]}", era.label, liger, "yes" if era.sleeps else "no", mode, era.completion, f"{era.beta:g}")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    # 1.10 and 1.14 differ in nothing that is shown.
    seen = [lines[0], lines[1], *(line for i, line in enumerate(lines[2:], 2) if line.partition(" | ")[2] != lines[i - 1].partition(" | ")[2])]
    return "\n".join(seen) + "\n"


def era_of(version: str) -> Era:
    """The era of a TRL version such as `1.16.0` or `0.18`.

    Raises:
        UserError: it is no version, or older than GRPO.
    """
    match = re.match(r"v?(\d+)\.(\d+)", version)
    if not match:
        raise UserError("trl", Problem("--trl", f"'{version}' is not a version of TRL", "write it as 1.16 or 0.18"))
    number = (int(match[1]), int(match[2]))
    found = [era for era in ERAS if era.since <= number]
    if not found:
        raise UserError(
            "trl", Problem("--trl", f"TRL {version} has no GRPO trainer", f"the first planned for is {ERAS[0].since[0]}.{ERAS[0].since[1]}")
        )
    return found[-1]
