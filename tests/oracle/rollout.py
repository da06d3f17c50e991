"""Peaks of transformers' own generation as TRL runs it: the prompts at once, then one more token on a full cache; traced with fake tensors.

Under full tuning `generate` calls the forward that accelerate wrapped in autocast. Under adapters it is that of the base model inside PEFT's
wrapper, which nothing wrapped: no autocast, and PEFT casts what goes into each adapted layer to the adapter's type. A test sees both in a run.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from oracle.tracer import DTYPES, Tracker, _fake_parameters, _on_meta


@dataclass(frozen=True)
class Generated:
    """Bytes beyond the weights (and adapters): most in the prefill, most in the last step with its sampling."""

    prefill: int
    step: int

    @property
    def peak(self) -> int:
        return max(self.prefill, self.step)


def trace_rollout(
    config, *, batch: int, prompt: int, completion: int, weights: str = "float32", lora: int | None = None, targets="all-linear",
    adapters: str = "float32", quantize: bool = False, padded: bool = True, autocast: bool | None = None,
) -> Generated:  # fmt: skip
    """What generating `batch` completions takes.

    Args:
        adapters: their type; TRL has them in bfloat16 on a quantised base.
        padded: prompts of different lengths, so that the attention gets a mask.
        autocast: None for what TRL does: on for full tuning, off under adapters.
    """
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    model = _on_meta(config, DTYPES[weights], lora, targets, quantize)
    for p in model.parameters():
        if lora and p.requires_grad:
            p.data = p.data.to(DTYPES[adapters])
    _fake_parameters(model, fake)
    base = model.get_base_model() if lora else model
    on = (not lora) if autocast is None else autocast
    context = (lambda: torch.autocast("cpu", dtype=torch.bfloat16)) if on else contextlib.nullcontext
    with fake, torch.no_grad():
        return Generated(*(_peak(base, context, batch, new, held, padded) for new, held in ((prompt, 0), (1, prompt + completion - 1))))


def _peak(base, context, batch: int, new: int, held: int, padded: bool) -> int:
    """The most beyond the weights while `new` tokens go through on a cache of `held`, and the next ones are drawn."""
    from transformers import DynamicCache

    cache, tracker = DynamicCache(config=base.config), Tracker()
    mask = None
    with context():
        if held:
            _forward(base, batch, held, None, cache)
            if getattr(base.config, "_experts_implementation", None) == "grouped_mm":  # as `generate` does on a GPU
                base.set_experts_implementation("batched_mm")
        for tensor in [*base.parameters(), *base.buffers()]:
            tracker.add(tensor.data)
        before = tracker.now
        for layer in cache.layers if held else ():
            for value in vars(layer).values():
                if isinstance(value, torch.Tensor):
                    tracker.add(value)
        with tracker:
            mask = torch.ones(batch, 1, new, held + new, dtype=torch.bool) if padded else None
            logits = _forward(base, batch, new, mask, cache)
    with tracker:
        _draw(logits.float() if logits.dtype != torch.float32 else logits)
    return max(tracker.peaks.values()) - before


def _forward(base, batch: int, new: int, mask, cache) -> torch.Tensor:
    ids = torch.zeros(batch, new, dtype=torch.long)
    return base(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, logits_to_keep=1).logits


def _draw(logits: torch.Tensor) -> None:
    """transformers' `_sample`: a float32 copy of the last logits, divided by the temperature, softmax, and what `multinomial` makes."""
    scores = logits[:, -1].to(copy=True, dtype=torch.float32)
    scores = scores / 1.0
    chances = torch.nn.functional.softmax(scores, dim=-1)
    torch.empty_like(chances)
