"""What draws completions. A backend is asked for batches and gives them back in any order; which prompts, how often, and the file are not its affair.

`transformers` loads the model into this process as training does; `vllm` loads it into vLLM's offline engine; `openai` asks a server. Recorded
completions (`--completions`) are taken over by `recorded` and `tables` instead.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from grpo_rlvr.config import Config

BACKENDS = ("transformers", "vllm", "openai")


@dataclass(frozen=True)
class Batch:
    """Completions to draw together: one for each of `prompts`, which are neighbours in the plan from place `start` on."""

    start: int
    prompts: Sequence[str | list[dict]]
    seed: str  # fixes this batch alone, so that an interrupted run draws what an uninterrupted one would have drawn


@dataclass(frozen=True)
class Drawn:
    """A completion in the form of its prompt, how it ended ("stop", "length", "unknown") and its tokens with the end token (None: not known)."""

    completion: str | list[dict]
    finish: str
    tokens: int | None
    more: Mapping[str, Any] = field(default_factory=dict)  # what else is kept with the sample


class Backend(Protocol):
    """What `sampling.draw_samples` asks of a backend; entering it loads the model or finds the server."""

    batch_size: int

    def __enter__(self) -> Backend: ...

    def __exit__(self, *exc_info) -> None: ...

    def draw(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, list[Drawn]]]:
        """Each batch once, with as many completions as it has prompts, as soon as it is there."""


def choose(config: Config) -> str:
    """The backend if nobody names one: vLLM where training generates with it and it is installed, else transformers."""
    if config.inspection.backend:
        return config.inspection.backend
    return "vllm" if config.grpo.get("use_vllm") and importlib.util.find_spec("vllm") is not None else "transformers"


def backend_settings(config: Config, backend: str) -> dict[str, Any]:
    """What of the backend decides the samples, for the header of their file; never a key or an address."""
    if backend == "vllm":
        from grpo_rlvr.inspection.backends.vllm_engine import engine_dtype

        return {"backend": backend, "engine_dtype": engine_dtype(config)}
    if backend == "openai":
        from grpo_rlvr.inspection.backends.server import server_settings

        return {"backend": backend, "server": server_settings(config)}
    return {"backend": backend}


def open_backend(config: Config, backend: str, prompts: Sequence, *, model: Any = None, tokenizer: Any = None) -> Backend:
    """The backend, not yet entered.

    Args:
        prompts: all the prompts it will see, for what depends on the longest.
        model, tokenizer: the config's model if the caller has loaded it (transformers only).
    """
    if backend == "vllm":
        from grpo_rlvr.inspection.backends.vllm_engine import VllmBackend

        return VllmBackend(config, prompts)
    if backend == "openai":
        from grpo_rlvr.inspection.backends.server import ServerBackend

        return ServerBackend(config)
    from grpo_rlvr.inspection.backends.local import TransformersBackend

    return TransformersBackend(config, model, tokenizer)
