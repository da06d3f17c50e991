"""What is known of model and data before training: the model's own config.json, lengths of prompts and of inspected completions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
VISION = ("vision_config", "vision_tower", "mm_vision_tower", "visual", "image_token_id", "image_token_index")


@dataclass(frozen=True)
class Lengths:
    """Completions drawn by the inspection, in tokens. `limit` cut `cut` of them; the rest ended by themselves."""

    tokens: tuple[int, ...]
    cut: int
    limit: int

    def quantile(self, share: float) -> int:
        """The length that `share` of the completions do not exceed; a cut one counts as its limit."""
        return sorted(self.tokens)[max(0, math.ceil(share * len(self.tokens)) - 1)]

    def over(self, limit: int) -> int:
        """How many would not have ended within `limit` tokens."""
        longer = sum(n > limit for n in self.tokens)
        return max(longer, self.cut) if limit <= self.limit else self.cut


@dataclass(frozen=True)
class Seen:
    """Everything is optional: what is None leaves out the rules that need it."""

    model: Mapping[str, Any] | None = None  # config.json
    parameters: int | None = None
    prompt_tokens: int | None = None  # of the longest prompt, template included
    completions: Lengths | None = None

    @property
    def text_model(self) -> Mapping[str, Any]:
        """The part of config.json that describes the language model."""
        inner = (self.model or {}).get("text_config")
        return {**(self.model or {}), **(inner if isinstance(inner, Mapping) else {})}

    @property
    def experts(self) -> int:
        """Experts a layer, 0 for a dense model."""
        return max((n for key in EXPERTS if isinstance(n := self.text_model.get(key), int)), default=0)

    @property
    def sees_images(self) -> bool:
        return any((self.model or {}).get(key) is not None for key in VISION)

    @property
    def dtype(self) -> str | None:
        """The checkpoint's, as transformers reads it with `dtype: auto`."""
        own = self.text_model.get("dtype", self.text_model.get("torch_dtype"))
        return own if isinstance(own, str) else None

    @property
    def context(self) -> int | None:
        length = self.text_model.get("max_position_embeddings")
        return length if isinstance(length, int) else None


def read_model_config(folder: Path | None) -> dict | None:
    """config.json of a local model folder; None for a hub name, and where it cannot be read (loading says why)."""
    try:
        value = json.loads((folder / "config.json").read_text(encoding="utf-8")) if folder is not None else None
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def read_lengths(samples: Sequence[Mapping[str, Any]], limit: Any) -> Lengths | None:
    """The lengths of inspected samples whose token counts are known; None if there are too few (20) to say anything."""
    known = [s for s in samples if isinstance(s.get("tokens"), int) and s.get("finish") in ("stop", "length")]
    if len(known) < 20 or not isinstance(limit, int):
        return None
    return Lengths(tuple(s["tokens"] for s in known), sum(s["finish"] == "length" for s in known), limit)
