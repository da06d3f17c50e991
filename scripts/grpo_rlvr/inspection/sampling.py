"""Draw completions from the model as training will: same template, sampling settings, autocast, stopping and decoding."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from grpo_rlvr.bars import progress
from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.device import autocast, device_type
from grpo_rlvr.errors import MissingError, Problem, UserError, missing_package
from grpo_rlvr.inspection.fingerprint import same
from grpo_rlvr.inspection.jsonl import sha256
from grpo_rlvr.inspection.model_files import model_folder, model_part
from grpo_rlvr.inspection.samples import append_samples, make_header, sample_ids, start_samples

INSTALL = "pip install torch transformers"


def draw_prompts(count: int, wanted: int, seed: int) -> list[int]:
    """Numbers of the training rows to inspect, without replacement; the same for the same seed."""
    return random.Random(f"inspection prompts {seed}").sample(range(count), min(wanted, count))


def planned_header(config: Config, rows: Sequence[dict]) -> dict:
    """The header that samples drawn today would have; equal to a file's header if its samples can still be used."""
    inspection = config.inspection
    drawn = draw_prompts(len(rows), inspection.prompts, inspection.seed)
    repeats = inspection.samples_per_prompt or config.num_generations
    settings = {
        "source": "model",
        "seed": inspection.seed,
        "prompts": len(drawn),
        "samples_per_prompt": repeats,
        "dtype": config.model.dtype,
        **config.sampling,
    }
    fingerprint = {"model": model_part(config), "prompts": sha256([[i, rows[i]] for i in drawn])}
    return make_header(settings, fingerprint, len(drawn) * repeats)


def draw_samples(config: Config, rows: Sequence[dict], *, model: Any = None, tokenizer: Any = None, quiet: bool = False) -> list[dict]:
    """Fill `samples.jsonl` and return its samples; goes on where an interrupted run stopped, and draws nothing if all are there.

    Args:
        model, tokenizer: the config's model, if the caller has loaded it already; left as it was found.
    """
    header = planned_header(config, rows)
    drawn = draw_prompts(len(rows), config.inspection.prompts, config.inspection.seed)
    plan = [i for i in drawn for _ in range(header["sampling"]["samples_per_prompt"])]

    def fits(number: int, sample: dict) -> bool:
        row = rows[plan[number]]
        wanted = [plan[number], row["prompt"], {k: v for k, v in row.items() if k != "prompt"}]
        return same([sample["prompt_index"], sample["prompt"], sample["columns"]], wanted)

    samples = start_samples(config.inspection_folder, header, fits)
    if len(samples) == len(plan):
        return samples
    if model is None or tokenizer is None:
        model, tokenizer = load_model(config)
    if len(samples) and not quiet:
        say(f"going on after {len(samples)} of {len(plan)} samples")
    size = config.inspection.batch_size
    with Sampler(config, model, tokenizer) as sampler, progress("sampling", len(plan), done=len(samples), quiet=quiet) as advance:
        while len(samples) < len(plan):
            start = len(samples)
            indices = plan[start : start + size]
            drawn_batch = sampler.draw([rows[i]["prompt"] for i in indices], f"{config.inspection.seed} {start}")
            batch = [
                {
                    "prompt_index": i,
                    "prompt": rows[i]["prompt"],
                    "completion": completion,
                    "columns": {k: v for k, v in rows[i].items() if k != "prompt"},
                    "finish": finish,
                    "tokens": tokens,
                    "batch": [start, len(indices)],
                }
                for i, (completion, finish, tokens) in zip(indices, drawn_batch, strict=True)
            ]
            ids = sample_ids([(s["prompt"], s["completion"]) for s in [*samples, *batch]])[start:]
            batch = [{"sample_id": sample_id, **sample} for sample_id, sample in zip(ids, batch, strict=True)]
            append_samples(config.inspection_folder, batch)
            samples += batch
            advance(len(batch))
    return samples


def load_model(config: Config):
    """The config's model (dtype as written there, on the device that training would use) and its tokenizer."""
    folder = model_folder(config)
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as exc:
        raise missing_package(
            exc.name or "transformers", "sampling the model", f"{INSTALL}; or give recorded completions: --completions FILE"
        ) from exc
    name = str(folder or config.model.name_or_path)
    dtype = config.model.dtype
    shared = {"revision": config.model.revision, "trust_remote_code": bool(config.grpo.get("trust_remote_code"))}
    options = {**shared, **(config.grpo.get("model_init_kwargs") or {}), "dtype": dtype if dtype == "auto" else getattr(torch, dtype)}
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **shared)
        model = AutoModelForCausalLM.from_pretrained(name, **options)
    except (OSError, ValueError) as exc:
        first = str(exc).strip().splitlines()[0][:200]
        if folder is not None:
            raise UserError(
                "model",
                Problem(
                    "model.name_or_path", f"{folder} cannot be loaded: {first}", "give the folder that save_pretrained wrote, tokenizer included"
                ),
            ) from exc
        raise MissingError(
            "model",
            Problem("model.name_or_path", f"'{name}' cannot be loaded: {first}", "check the name, the network and HF_TOKEN, or give a local folder"),
        ) from exc
    return (model if "device_map" in options else model.to(device_type(config))), tokenizer


class Sampler:
    """Generates as TRL's trainer does with its transformers backend; leaves model and tokenizer as they were."""

    def __init__(self, config: Config, model: Any, tokenizer: Any):
        self.model, self.tokenizer, self.sampling = model, tokenizer, config.sampling
        own = model.generation_config.eos_token_id
        own = [] if own is None else [own] if isinstance(own, int) else list(own)
        self.eos = own if tokenizer.eos_token_id in own or tokenizer.eos_token_id is None else [tokenizer.eos_token_id, *own]
        self.pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.autocast = autocast(config)
        self.warned = False

    def __enter__(self) -> Sampler:
        self.was_training = self.model.training
        self.model.eval()
        return self

    def __exit__(self, *exc_info) -> None:
        self.model.train(self.was_training)

    def draw(self, prompts: Sequence[str | list[dict]], seed: str) -> list[tuple[str | list[dict], str, int]]:
        """One completion a prompt: (completion in the prompt's format, "stop" or "length", number of tokens with the end token).

        Args:
            seed: fixes this batch alone, so that an interrupted run draws what an uninterrupted one would have drawn.
        """
        import torch

        ids = self._tokenize(prompts)
        width = max(map(len, ids))
        self._check_length(width)
        left_padded = torch.tensor([[self.pad] * (width - len(row)) + row for row in ids], device=self.model.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids], device=self.model.device)
        # The caller's random state is left alone: training in the same process must not depend on whether it was sampled before.
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices=devices), torch.no_grad(), self._precision():
                torch.manual_seed(int(sha256(seed)[:15], 16))
                output = self.model.generate(input_ids=left_padded, attention_mask=mask, generation_config=self._generation_config())
        except torch.OutOfMemoryError as exc:
            fix = "lower inspection.batch_size and run again: it goes on where it stopped"
            raise MissingError(
                "memory", Problem("inspection.batch_size", f"{len(ids)} completions at once do not fit into the GPU's memory", fix)
            ) from exc
        rows = [self._cut(row) for row in output[:, width:].tolist()]
        finishes = ["stop" if row and row[-1] in {*self.eos, self.pad} else "length" for row in rows]
        return list(zip(self._decode(prompts, ids, rows), finishes, map(len, rows), strict=True))

    def _precision(self):
        import contextlib

        import torch

        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.model.device.type, dtype=getattr(torch, self.autocast))

    def _tokenize(self, prompts: Sequence) -> list[list[int]]:
        if isinstance(prompts[0], str):
            return self.tokenizer(text=list(prompts))["input_ids"]
        if not self.tokenizer.chat_template:
            fix = "give text prompts (and no data.system_prompt), or a tokenizer with a chat template"
            raise UserError("model", Problem("model.name_or_path", "the prompts are messages, but the tokenizer has no chat template", fix))
        kwargs = dict(self.sampling.get("chat_template_kwargs") or {})
        rendered = self.tokenizer.apply_chat_template(
            conversation=list(prompts), add_generation_prompt=True, tokenize=True, return_dict=True, **kwargs
        )
        return rendered["input_ids"]

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

    def _decode(self, prompts: Sequence, prompt_ids: list[list[int]], rows: list[list[int]]) -> list:
        if isinstance(prompts[0], str):
            return self.tokenizer.batch_decode(rows, skip_special_tokens=True)
        if getattr(self.tokenizer, "response_template", None) is not None or getattr(self.tokenizer, "response_schema", None) is not None:
            # Such a tokenizer splits reasoning and tool calls from the text, and TRL lets it.
            from trl.chat_template_utils import parse_response

            return [[parse_response(self.tokenizer, row, prefix=ids)] for ids, row in zip(prompt_ids, rows, strict=True)]
        return [[{"role": "assistant", "content": text}] for text in self.tokenizer.batch_decode(rows, skip_special_tokens=True)]

    def _check_length(self, prompt_tokens: int) -> None:
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        needed = prompt_tokens + self.sampling["max_completion_length"]
        if limit and needed > limit and not self.warned:
            self.warned = True
            say(
                f"warning: {prompt_tokens} prompt tokens and {self.sampling['max_completion_length']} to generate "
                f"are more than the model's {limit} positions"
            )
