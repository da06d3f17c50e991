"""Whether the weights that were sampled have been trained at all: the entropy of the first token of an answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.cli import write_json
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.jsonl import sha256

PROMPTS = 8
FILE = "first_token.json"
# Share of ln(vocabulary). Random weights are near 1: all tokens are about as likely. A trained model chooses between a few.
UNTRAINED = 0.9


def measure_first_token(model: Any, prompts: Sequence[Sequence[int]]) -> dict:
    """Mean entropy in nats of the token after each prompt, at temperature 1; `uniform` is that of a model that knows nothing, ln(vocabulary).

    Args:
        model: in evaluation mode, under the caller's no_grad and precision.
        prompts: token ids, passed one at a time: without padding no architecture needs positions of its own, and memory is that of one prompt.

    Raises:
        UserError: its logits are no numbers.
    """
    import torch

    # Logits of the last position only: of a long prompt all of them would be gigabytes.
    narrow = {"logits_to_keep": 1} if getattr(model, "_supports_logits_to_keep", bool)() else {}
    entropies = []
    for ids in prompts[:PROMPTS]:
        logits = model(input_ids=torch.tensor([list(ids)], device=model.device), use_cache=False, **narrow).logits[0, -1].float()
        if logits.isnan().any() or logits.isposinf().any() or not logits.isfinite().any():  # minus infinity is a token that it never writes
            raise no_probabilities()
        entropies.append(torch.distributions.Categorical(logits=logits).entropy().item())
    return {"entropy": math.fsum(entropies) / len(entropies), "uniform": math.log(logits.shape[-1]), "prompts": len(entropies)}


def no_probabilities() -> UserError:
    """The error for weights of which nothing can be drawn."""
    message = "the model gives no finite probabilities (NaN or infinity): nothing can be drawn from it"
    fix = "give weights that are whole (a run that diverged may have saved NaN), or another model.dtype if they overflow in this one"
    return UserError("model", Problem("model.name_or_path", message, fix))


def keep_first_token(folder: Path, header: Mapping, measured: Mapping | None) -> None:
    """Write down what was measured as soon as it is: a run that ends before signal.json is there never loads the model again.

    Args:
        header: of the samples that are drawn from this model.
    """
    if measured is not None:
        write_json(folder / FILE, "first-token", 1, {**measured, "model": sha256(header["fingerprint"].get("model"))})


def first_token_of(folder: Path, header: Mapping | None) -> dict | None:
    """What was measured of the model that drew these samples: by this run or an earlier one.

    Args:
        header: of the samples; None, or of another backend than transformers, has nothing.
    """
    if header is None or header["sampling"].get("backend") != "transformers":
        return None
    model = sha256(header["fingerprint"].get("model"))
    for name, part in ((FILE, None), ("signal.json", "first_token")):  # an older version wrote the latter only
        try:
            found = json.loads((folder / name).read_text(encoding="utf-8"))
            found = found if part is None else found[part]
            if found["model"] == model:
                return {"entropy": float(found["entropy"]), "uniform": float(found["uniform"]), "prompts": int(found["prompts"]), "model": model}
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


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
