"""The model in vLLM's offline engine: as TRL generates with `use_vllm` in colocate mode, prompts handed over as token ids."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.errors import MissingError, Problem, missing_package
from grpo_rlvr.inspection.backends.backend import Batch, Drawn
from grpo_rlvr.inspection.backends.local import load_tokenizer
from grpo_rlvr.inspection.backends.tokens import TokenForm
from grpo_rlvr.inspection.jsonl import sha256
from grpo_rlvr.inspection.model_files import model_folder

INSTALL = "pip install 'vllm>=0.22,<=0.31.0'"  # the range that TRL supports
AT_ONCE = 256  # completions of one call: vLLM forms its batches itself, and what is whole is on the disk after each call


def engine_dtype(config: Config) -> str:
    """The engine's dtype: TRL leaves it to vLLM ("auto"); where training generates through transformers, that of its forward pass."""
    if config.grpo.get("use_vllm"):
        return "auto"
    if config.grpo.get("fp16"):
        return "float16"
    bf16 = config.grpo.get("bf16")
    return "bfloat16" if bf16 or (bf16 is None and not config.grpo.get("use_cpu")) else config.model.dtype


def engine_arguments(config: Config, longest_prompt: int) -> dict[str, Any]:
    """The keyword arguments of `vllm.LLM`.

    Without `vllm_max_model_length` there is room for the longest prompt (in tokens) and max_completion_length, no more: the model's whole
    context would take memory that nothing uses.
    """
    setting = config.setting
    arguments = {
        "model": str(model_folder(config) or config.model.name_or_path),
        "revision": config.model.revision,
        "tokenizer_revision": config.model.revision,
        "dtype": engine_dtype(config),
        "max_model_len": setting("vllm_max_model_length") or longest_prompt + setting("max_completion_length"),
        "tensor_parallel_size": setting("vllm_tensor_parallel_size") or 1,
        "trust_remote_code": bool(config.grpo.get("trust_remote_code")),
        "seed": config.inspection.seed,
    }
    if setting("vllm_model_impl"):
        arguments["model_impl"] = setting("vllm_model_impl")
    # Beside the trainer's model TRL leaves vLLM a part of the memory; alone, vLLM's own default is right unless something is written.
    if config.grpo.get("use_vllm") or "vllm_gpu_memory_utilization" in config.grpo:
        arguments["gpu_memory_utilization"] = setting("vllm_gpu_memory_utilization")
    return arguments


def sampling_arguments(config: Config) -> dict[str, Any]:
    """The keyword arguments of `vllm.SamplingParams`, as TRL gives them; the seed is added for each completion."""
    sampling = config.sampling
    arguments = {
        "n": 1,
        "repetition_penalty": sampling["repetition_penalty"],
        "temperature": sampling["temperature"],
        "top_p": sampling["top_p"],
        "top_k": sampling["top_k"],
        "min_p": 0.0 if sampling["min_p"] is None else sampling["min_p"],
        "max_tokens": sampling["max_completion_length"],
        **(sampling["generation_kwargs"] or {}),
    }
    if regex := config.setting("vllm_structured_outputs_regex"):
        arguments["structured_outputs"] = {"regex": regex}
    return arguments


class VllmBackend:
    """One engine for all prompts; entering loads the model, leaving frees it."""

    batch_size = AT_ONCE

    def __init__(self, config: Config, prompts: Sequence):
        self.config, self.prompts = config, prompts

    def __enter__(self) -> VllmBackend:
        # Before vllm is imported: its log belongs on stderr, stdout is for data.
        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
        with _stdout_to_stderr():
            try:
                import vllm
            except ImportError as exc:
                fix = f"{INSTALL}; or --backend transformers"
                raise missing_package(exc.name or "vllm", "sampling with vLLM", fix) from exc
            self.vllm = vllm
            self.form = TokenForm(load_tokenizer(self.config), self.config.sampling)
            longest = max(map(len, self.form.encode(self.prompts)))
            with _engine_errors():
                self.llm = vllm.LLM(**engine_arguments(self.config, longest))
        return self

    def __exit__(self, *exc_info) -> None:
        del self.llm
        gc.collect()  # the engine's process ends, and gives its memory back, when nothing refers to it

    def draw(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, list[Drawn]]]:
        for batch in batches:
            ids = self.form.encode(batch.prompts)
            with _stdout_to_stderr(), _engine_errors():
                outputs = self.llm.generate([{"prompt_token_ids": row} for row in ids], self._parameters(batch), use_tqdm=False)
            ends = [output.outputs[0] for output in outputs]
            rows = [list(end.token_ids) for end in ends]
            completions = self.form.decode(batch.prompts, ids, rows)
            finishes = [end.finish_reason if end.finish_reason in ("stop", "length") else "unknown" for end in ends]
            yield batch, [Drawn(*drawn) for drawn in zip(completions, finishes, map(len, rows), strict=True)]

    def _parameters(self, batch: Batch) -> list:
        arguments = sampling_arguments(self.config)
        structured = arguments.get("structured_outputs")
        if isinstance(structured, dict):
            from vllm.sampling_params import StructuredOutputsParams

            arguments["structured_outputs"] = StructuredOutputsParams(**structured)
        seeds = [int(sha256(f"{batch.seed} {k}")[:8], 16) for k in range(len(batch.prompts))]
        return [self.vllm.SamplingParams(**{"seed": seed, **arguments}) for seed in seeds]


@contextlib.contextmanager
def _engine_errors():
    """vLLM's own errors (no room, a length it cannot hold, an unknown model) as ours; the details are in its log above."""
    try:
        yield
    except (ValueError, RuntimeError, OSError, AssertionError) as exc:
        first = next((line.strip() for line in str(exc).splitlines() if line.strip()), type(exc).__name__)[:300]
        fix = "see its log above; less grpo.vllm_gpu_memory_utilization or a shorter grpo.vllm_max_model_length, or --backend transformers"
        raise MissingError("vllm", Problem("vllm", f"the engine failed: {type(exc).__name__}: {first}", fix)) from exc


@contextlib.contextmanager
def _stdout_to_stderr():
    """File descriptor 1 is stderr meanwhile: the engine's processes inherit it and print there, past Python's own redirection."""
    try:
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(2, 1)
    except (OSError, ValueError):  # no such descriptor
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
