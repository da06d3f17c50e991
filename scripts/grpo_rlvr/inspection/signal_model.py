"""Whether the weights that were sampled have been trained at all: the entropy of the first token of an answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.inspection.jsonl import sha256

PROMPTS = 8
# Share of ln(vocabulary). Random weights are near 1: all tokens are about as likely. A trained model chooses between a few.
UNTRAINED = 0.9


def measure_first_token(model: Any, prompts: Sequence[Sequence[int]]) -> dict:
    """Mean entropy in nats of the token after each prompt, at temperature 1; `uniform` is that of a model that knows nothing, ln(vocabulary).

    Args:
        model: in evaluation mode, under the caller's no_grad and precision.
        prompts: token ids, passed one at a time: without padding no architecture needs positions of its own, and memory is that of one prompt.
    """
    import torch

    # Logits of the last position only: of a long prompt all of them would be gigabytes.
    narrow = {"logits_to_keep": 1} if getattr(model, "_supports_logits_to_keep", bool)() else {}
    entropies = []
    for ids in prompts[:PROMPTS]:
        logits = model(input_ids=torch.tensor([list(ids)], device=model.device), use_cache=False, **narrow).logits[0, -1].float()
        entropies.append(torch.distributions.Categorical(logits=logits).entropy().item())
    return {"entropy": math.fsum(entropies) / len(entropies), "uniform": math.log(logits.shape[-1]), "prompts": len(entropies)}


def first_token_of(folder: Path, header: Mapping | None, measured: dict | None) -> dict | None:
    """What was `measured` when these samples were drawn: now, or by an earlier run that wrote it to signal.json.

    Args:
        header: of the samples; None, or of another backend than transformers, has nothing.
    """
    if header is None or header["sampling"].get("backend") != "transformers":
        return None
    model = sha256(header["fingerprint"].get("model"))
    if measured is not None:
        return {**measured, "model": model}
    try:
        before = json.loads((folder / "signal.json").read_text(encoding="utf-8")).get("first_token")
    except (OSError, ValueError, AttributeError):
        return None
    return before if isinstance(before, dict) and before.get("model") == model else None


def with_model(signal: dict, first: dict | None) -> dict:
    """The signal with what is known of the model; a warning comes before all other notes and before the next step."""
    signal = {**signal, "first_token": first}
    if first is None or not first["entropy"] > UNTRAINED * first["uniform"]:
        return signal
    warning = (
        f"these weights look untrained (random): the first token of an answer has an entropy of {first['entropy']:.2f} of ln(V) = "
        f"{first['uniform']:.2f} nats; is model.name_or_path the right folder?"
    )
    step = f"make sure that model.name_or_path is the right folder: its weights look untrained; if they are meant to be, {signal['next_step']}"
    return {**signal, "notes": [warning, *signal["notes"]], "next_step": step}
