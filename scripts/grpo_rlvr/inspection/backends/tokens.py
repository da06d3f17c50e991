"""Prompts to token ids and token ids to completions, as TRL's trainer does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.errors import Problem, UserError


class TokenForm:
    """The tokenizer's way with prompts and completions; all prompts of a call have one form, text or messages."""

    def __init__(self, tokenizer: Any, sampling: Mapping[str, Any]):
        self.tokenizer, self.template_kwargs = tokenizer, dict(sampling.get("chat_template_kwargs") or {})

    def encode(self, prompts: Sequence[str | list[dict]]) -> list[list[int]]:
        """The token ids of each prompt. Raises UserError for a prompt that has none: a model cannot go on from nothing."""
        found = self._encoded(prompts)
        if empty := [prompt for prompt, ids in zip(prompts, found, strict=True) if not len(ids)]:
            message = f"its tokenizer makes no token of {len(empty)} of {len(prompts)} prompts, e.g. {str(empty[0])[:80]!r}"
            fix = "give the folder that save_pretrained wrote, the tokenizer's files (tokenizer.json) included"
            raise UserError("model", Problem("model.name_or_path", message, fix))
        return found

    def _encoded(self, prompts: Sequence[str | list[dict]]) -> list[list[int]]:
        if isinstance(prompts[0], str):
            return self.tokenizer(text=list(prompts))["input_ids"]
        if not self.tokenizer.chat_template:
            fix = "give text prompts (and no data.system_prompt), or a tokenizer with a chat template"
            raise UserError("model", Problem("model.name_or_path", "the prompts are messages, but the tokenizer has no chat template", fix))
        rendered = self.tokenizer.apply_chat_template(
            conversation=list(prompts), add_generation_prompt=True, tokenize=True, return_dict=True, **self.template_kwargs
        )
        return rendered["input_ids"]

    def decode(self, prompts: Sequence[str | list[dict]], prompt_ids: Sequence[list[int]], rows: Sequence[list[int]]) -> list[str | list[dict]]:
        """Completions in the form of their prompts; special tokens are left out."""
        if isinstance(prompts[0], str):
            return self.tokenizer.batch_decode(rows, skip_special_tokens=True)
        if getattr(self.tokenizer, "response_template", None) is not None or getattr(self.tokenizer, "response_schema", None) is not None:
            # Such a tokenizer splits reasoning and tool calls from the text, and TRL lets it.
            from trl.chat_template_utils import parse_response

            return [[parse_response(self.tokenizer, row, prefix=ids)] for ids, row in zip(prompt_ids, rows, strict=True)]
        return [[{"role": "assistant", "content": text}] for text in self.tokenizer.batch_decode(rows, skip_special_tokens=True)]
