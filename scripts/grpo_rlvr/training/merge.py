"""`train.py CONFIG --merge`: the adapter of a run put into its base model, checked, and saved as a model of its own."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.data import load_rows
from grpo_rlvr.errors import EXIT_YES, CheckFailed, Problem, UserError
from grpo_rlvr.inspection.model_files import model_folder
from grpo_rlvr.training.checkpoints import newest_complete, step_of
from grpo_rlvr.training.process import loading_errors
from grpo_rlvr.training.run_folder import RunFolder

# Float32 sums in another order differ by about this share of the largest logit.
TOLERANCE = 1e-3


def merge(config: Config) -> tuple[int, dict]:
    """Write `train/merged`: base and adapter as one model, in the dtype of the config, never quantised.

    The sum is made in float32, also where the base is kept in fewer bits, and compared with base + adapter on the first prompt.

    Raises:
        UserError: no adapter to merge, or `train/merged` is there already.
        CheckFailed: the merged model gives other logits than the adapter on its base.
    """
    run = RunFolder(config.run_folder)
    adapter, step = find_adapter(config, run)
    target = run.train / "merged"
    if target.exists():
        raise UserError("run", Problem("--merge", f"{target} is there already", "move it away; nothing was changed"))
    if config.grpo.get("use_vllm") and config.model.dtype != "float32":
        say("warning: vLLM was fed by merging into a rounded base, which drifts; evaluate the merged model before you use it")

    if not sys.stderr.isatty():
        from transformers.utils import logging

        logging.disable_progress_bar()
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    shared = {"revision": config.model.revision, "trust_remote_code": bool(config.grpo.get("trust_remote_code"))}
    name = str(model_folder(config) or config.model.name_or_path)
    with loading_errors(config):
        base = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, **shared)
        kept = getattr(torch, config.model.dtype) if config.model.dtype != "auto" else _checkpoint_dtype(base)
        tokenizer = AutoTokenizer.from_pretrained(name, **shared)
        model = PeftModel.from_pretrained(base, str(adapter)).eval()
    inputs = _first_prompt(config, tokenizer)
    with torch.no_grad():
        before = model(**inputs).logits
        merged = model.merge_and_unload(safe_merge=True)
        after = merged(**inputs).logits
    difference = float((after - before).abs().max() / before.abs().max().clamp(min=1e-6))
    if not difference <= TOLERANCE:
        problem = f"the merged model's logits differ by {difference:.2g} of the largest (at most {TOLERANCE:g})"
        raise CheckFailed("run", Problem("--merge", problem, "nothing was written; report it with the model's name"))
    partial = target.with_name(f".merged.{os.getpid()}")
    try:
        merged.to(kept).save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        os.replace(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    say(f"merged step {step} into {target} ({str(kept).removeprefix('torch.')}; logits agree to {difference:.1g} of the largest)")
    result = {"adapter": str(adapter), "step": step, "model": str(target), "dtype": str(kept).removeprefix("torch."), "difference": difference}
    return EXIT_YES, {"schema": "grpo-rlvr/merge/1", **result}


def find_adapter(config: Config, run: RunFolder) -> tuple[Path, int | None]:
    """The adapter of the finished run, else of its newest whole checkpoint, and its step where that is known."""
    if config.model.lora is None:
        raise UserError("run", Problem("--merge", "the config has no model.lora: train/model is a whole model already", "use it as it is"))
    if (run.model / "adapter_config.json").is_file():
        return run.model, run.progress.last_step() or None
    checkpoint = newest_complete(run.checkpoints)
    if checkpoint is None or not (checkpoint / "adapter_config.json").is_file():
        raise UserError("run", Problem("--merge", f"there is no adapter in {run.train}", "train first"))
    return checkpoint, step_of(checkpoint)


def _checkpoint_dtype(model):
    import torch

    own = getattr(model.config, "dtype", None)
    return own if isinstance(own, torch.dtype) else torch.float32


def _first_prompt(config: Config, tokenizer) -> dict:
    prompt = load_rows(config, "train", limit=1)[0]["prompt"]
    if isinstance(prompt, str):
        return tokenizer(prompt, return_tensors="pt")
    kwargs = config.sampling["chat_template_kwargs"] or {}
    return tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt", **kwargs)
