"""How long the longest prompt is taken to be, and from where that is known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.config import Config

ASSUMED_PROMPT = 512
MAX_DATA_BYTES = 20_000_000
# A token of ordinary text has 3-5 bytes in the tokenizers of these models; three errs on the long side.
BYTES_A_TOKEN = 3
TEMPLATE_TOKENS = 32
STATE_IT = ": set data.prompt_tokens"


@dataclass(frozen=True)
class LongestPrompt:
    """Tokens of the longest prompt.

    `firm`: the config says the same when its completions or vLLM's context change; where not, a patch that changes them must state `tokens`.
    `assumed`: where it was taken from, "" where the config states it.
    """

    tokens: int
    firm: bool
    assumed: str


def longest_prompt(config: Config, context: int | None, completion: int) -> LongestPrompt:
    """The longest prompt as stated; else the data's, no longer than what `max_prompt_tokens` and vLLM's context let through; else what these do.

    Args:
        context: vLLM's `vllm_max_model_length`, None without vLLM.
    """
    if config.data.prompt_tokens:
        return LongestPrompt(config.data.prompt_tokens, True, "")
    tokens, source = _of_the_data(config)
    # A context that leaves nothing for prompts says nothing of them; it may, once completions are shorter.
    left = context - completion if context and context > completion else None
    if left is not None and (tokens is None or left < tokens):
        whose = f" ({source})" if source else ""
        text = f"prompts of up to {left} tokens, what vllm_max_model_length {context} leaves beside completions of {completion}{whose}"
        return LongestPrompt(left, False, text + STATE_IT)
    if tokens is None:
        return LongestPrompt(ASSUMED_PROMPT, False, f"prompts of {ASSUMED_PROMPT} tokens ({source}){STATE_IT}")
    return LongestPrompt(tokens, left is not None or not context, f"prompts of up to {tokens} tokens, {source}{STATE_IT}")


def _of_the_data(config: Config) -> tuple[int | None, str]:
    """Tokens of the longest prompt that training keeps, None where nothing says, and in words whence."""
    longest, most = _longest_bytes(config), config.data.max_prompt_tokens
    if longest is None:
        nothing = "no local data file to look at"
        return (most, f"as data.max_prompt_tokens lets through ({nothing})") if most else (None, nothing)
    tokens = -(-longest // BYTES_A_TOKEN) + TEMPLATE_TOKENS
    source = f"from the longest in the file ({longest} bytes, {BYTES_A_TOKEN} a token, and {TEMPLATE_TOKENS} for the template)"
    if most and most < tokens:
        return most, f"as data.max_prompt_tokens lets through; {tokens} {source}"
    return tokens, source


def _longest_bytes(config: Config) -> int | None:
    path = config.resolve(config.data.train)
    if path.suffix not in (".jsonl", ".json") or not path.is_file() or path.stat().st_size > MAX_DATA_BYTES:
        return None
    column = config.data.columns.get("prompt", "prompt")
    longest = 0
    try:
        with open(path, encoding="utf-8-sig") as lines:
            for line in lines:
                # A line is never shorter than its prompt, so most need not be parsed.
                if len(line) > longest and line.strip():
                    row = json.loads(line)
                    longest = max(longest, _text_bytes(row.get(column)) if isinstance(row, dict) else 0)
    except (OSError, ValueError, RecursionError):
        return None
    return longest + len((config.data.system_prompt or "").encode()) if longest else None


def _text_bytes(prompt: Any) -> int:
    if isinstance(prompt, str):
        return len(prompt.encode("utf-8", "replace"))
    if isinstance(prompt, list):
        return sum(_text_bytes(m.get("content")) + 12 for m in prompt if isinstance(m, dict))
    return 0
