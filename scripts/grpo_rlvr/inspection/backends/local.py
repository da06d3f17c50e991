"""The model in this process, through transformers: as TRL generates without vLLM."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.device import autocast, device_type
from grpo_rlvr.environment.places import hub_silent
from grpo_rlvr.errors import MissingError, Problem, UserError, missing_package
from grpo_rlvr.inspection.backends.backend import Batch, Drawn
from grpo_rlvr.inspection.backends.tokens import TokenForm
from grpo_rlvr.inspection.jsonl import sha256
from grpo_rlvr.inspection.model_files import model_folder
from grpo_rlvr.inspection.signal_model import PROMPTS, measure_first_token, no_probabilities

INSTALL = "pip install torch transformers"


def load_tokenizer(config: Config):
    """The config's tokenizer, as TRL loads it."""
    return _load(config, lambda name, shared: _transformers().AutoTokenizer.from_pretrained(name, **shared))


def load_model(config: Config):
    """The config's model (dtype as written there, on the device that training would use) and its tokenizer."""

    def load(name: str, shared: dict):
        import torch

        dtype = config.model.dtype
        options = {**shared, **(config.grpo.get("model_init_kwargs") or {}), "dtype": dtype if dtype == "auto" else getattr(torch, dtype)}
        if config.model.lora and config.model.lora.quantize:
            from grpo_rlvr.training.settings import quantization  # the samples are those of the quantised base, as in training

            options["quantization_config"] = quantization(config)
        tokenizer = _transformers().AutoTokenizer.from_pretrained(name, **shared)
        model = _transformers().AutoModelForCausalLM.from_pretrained(name, **options)
        placed = "device_map" in options or options.get("quantization_config") is not None
        return (model if placed else model.to(device_type(config))), tokenizer

    return _load(config, load)


def _transformers():
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as exc:
        raise missing_package(
            exc.name or "transformers", "sampling the model", f"{INSTALL}; or give recorded completions: --completions FILE"
        ) from exc
    return transformers


def _load(config: Config, load):
    folder = model_folder(config)
    name = str(folder or config.model.name_or_path)
    _transformers()
    silent = hub_silent() if folder is None else None
    shared = {"revision": config.model.revision, "trust_remote_code": bool(config.grpo.get("trust_remote_code")), "local_files_only": bool(silent)}
    try:
        return load(name, shared)
    except (OSError, ValueError) as exc:
        if silent:
            fix = "check the network (HF_ENDPOINT names a mirror), download it first and give the folder"
            message = f"'{name}' is not on this machine, and the hub does not answer ({silent})"
            raise MissingError("model", Problem("model.name_or_path", message, fix)) from exc
        first = str(exc).strip().splitlines()[0][:200]
        if folder is not None:
            fix = "give the folder that save_pretrained wrote, tokenizer included"
            raise UserError("model", Problem("model.name_or_path", f"{folder} cannot be loaded: {first}", fix)) from exc
        fix = "check the name, the network and HF_TOKEN, or give a local folder"
        raise MissingError("model", Problem("model.name_or_path", f"'{name}' cannot be loaded: {first}", fix)) from exc


class TransformersBackend:
    """Generates as TRL's trainer does with its transformers backend; leaves model and tokenizer as they were."""

    def __init__(self, config: Config, model: Any = None, tokenizer: Any = None):
        self.config, self.model, self.tokenizer, self.sampling = config, model, tokenizer, config.sampling
        self.batch_size = config.inspection.batch_size
        self.warned = False

    def __enter__(self) -> TransformersBackend:
        if self.model is None or self.tokenizer is None:
            self.model, self.tokenizer = load_model(self.config)
        model, tokenizer = self.model, self.tokenizer
        self.form = TokenForm(tokenizer, self.sampling)
        own = model.generation_config.eos_token_id
        own = [] if own is None else [own] if isinstance(own, int) else list(own)
        self.eos = own if tokenizer.eos_token_id in own or tokenizer.eos_token_id is None else [tokenizer.eos_token_id, *own]
        self.pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.autocast = autocast(self.config)
        self.was_training = model.training
        model.eval()
        return self

    def __exit__(self, *exc_info) -> None:
        self.model.train(self.was_training)

    def draw(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, list[Drawn]]]:
        for batch in batches:
            yield batch, self.draw_batch(batch)

    def first_token(self, prompts: Sequence) -> dict | None:
        """Of `signal_model.measure_first_token`, for the first of these prompts; None where memory is too short even for one."""
        import torch

        ids = self.form.encode(list(prompts[:PROMPTS]))
        try:
            with torch.no_grad(), self._precision():
                return measure_first_token(self.model, ids)
        except torch.OutOfMemoryError:  # sampling says what to do about that
            return None

    def draw_batch(self, batch: Batch) -> list[Drawn]:
        import torch

        ids = self.form.encode(batch.prompts)
        width = max(map(len, ids))
        self._check_length(width)
        left_padded = torch.tensor([[self.pad] * (width - len(row)) + row for row in ids], device=self.model.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids], device=self.model.device)
        # The caller's random state is left alone: training in the same process must not depend on whether it was sampled before.
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices=devices), torch.no_grad(), self._precision():
                torch.manual_seed(int(sha256(batch.seed)[:15], 16))
                output = self.model.generate(input_ids=left_padded, attention_mask=mask, generation_config=self._generation_config())
        except torch.OutOfMemoryError as exc:
            fix = "lower inspection.batch_size and run again: it goes on where it stopped"
            raise MissingError(
                "memory", Problem("inspection.batch_size", f"{len(ids)} completions at once do not fit into the GPU's memory", fix)
            ) from exc
        except RuntimeError as exc:
            if "probability tensor" not in str(exc):  # torch's words for logits that are NaN or infinite
                raise
            raise no_probabilities() from exc
        rows = [self._cut(row) for row in output[:, width:].tolist()]
        finishes = ["stop" if row and row[-1] in {*self.eos, self.pad} else "length" for row in rows]
        completions = self.form.decode(batch.prompts, ids, rows)
        return [Drawn(*drawn) for drawn in zip(completions, finishes, map(len, rows), strict=True)]

    def _precision(self):
        import torch

        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.model.device.type, dtype=getattr(torch, self.autocast))

    def _generation_config(self):
        from transformers import GenerationConfig

        names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
        settings = {
            "max_new_tokens": self.sampling["max_completion_length"],
            "do_sample": True,
            "pad_token_id": self.pad,
            "bos_token_id": self.tokenizer.bos_token_id,
            "eos_token_id": self.eos,
            **{name: self.sampling[name] for name in names},
            **(self.sampling.get("generation_kwargs") or {}),
        }
        return GenerationConfig(**settings, disable_compile=True)

    def _cut(self, row: list[int]) -> list[int]:
        """The tokens up to and with the first end token."""
        return next((row[: i + 1] for i, token in enumerate(row) if token in self.eos), row)

    def _check_length(self, prompt_tokens: int) -> None:
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        needed = prompt_tokens + self.sampling["max_completion_length"]
        if limit and needed > limit and not self.warned:
            self.warned = True
            say(
                f"warning: {prompt_tokens} prompt tokens and {self.sampling['max_completion_length']} to generate "
                f"are more than the model's {limit} positions"
            )
