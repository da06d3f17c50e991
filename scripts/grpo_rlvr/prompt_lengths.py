"""Lengths of prompts in tokens, with the training's own tokenizer and chat template: TRL cuts no prompt any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.errors import MissingError

LONGEST = 64  # prompts that are measured to find the longest: those with the most characters


@dataclass(frozen=True)
class Unmeasured:
    """Rows whose prompts could not be measured, and why."""

    place: str
    rows: int
    why: str


def prompt_tokens(tokenizer: Any, prompt: str | list[dict], template_kwargs: Mapping[str, Any] | None) -> int:
    """Tokens of a prompt as TRL feeds it: rendered with the chat template and the generation prompt where it is a list of messages."""
    if isinstance(prompt, str):
        return len(tokenizer(prompt)["input_ids"])
    ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=True, **(template_kwargs or {}))["input_ids"]
    return len(ids)


def longest_prompt(tokenizer: Any, rows: Sequence[dict], config: Config) -> int:
    """Tokens of the longest prompt, sought among those with the most characters."""
    by_size = sorted(rows, key=lambda row: len(str(row["prompt"])), reverse=True)[:LONGEST]
    return max(prompt_tokens(tokenizer, row["prompt"], config.sampling["chat_template_kwargs"]) for row in by_size)


def short_enough(config: Config, rows: Sequence[dict], place: str, unmeasured: list[Unmeasured] | None = None) -> list[int]:
    """Indices of the rows within data.max_prompt_tokens; how many are left out is said on stderr.

    Args:
        unmeasured: where the tokenizer cannot be got here, all rows stay and that is added to it. Without it that is an error.
    """
    from grpo_rlvr.inspection.backends.local import load_tokenizer

    if unmeasured:  # it was not to be had for other rows
        unmeasured.append(Unmeasured(place, len(rows), unmeasured[0].why))
        return list(range(len(rows)))
    try:
        limit, tokenizer = config.data.max_prompt_tokens, load_tokenizer(config)
    except MissingError as exc:
        if unmeasured is None or exc.kind != "model":
            raise
        unmeasured.append(Unmeasured(place, len(rows), exc.problems[0].message))
        return list(range(len(rows)))
    lengths = [prompt_tokens(tokenizer, row["prompt"], config.sampling["chat_template_kwargs"]) for row in rows]
    kept = [i for i, n in enumerate(lengths) if n <= limit]
    gone = len(rows) - len(kept)
    if gone:
        say(f"{place}: {gone} of {len(rows)} prompts have more than max_prompt_tokens {limit} tokens (up to {max(lengths)}) and are left out")
    return kept
