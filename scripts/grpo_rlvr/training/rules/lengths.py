"""Lengths that were measured against the limits: inspected completions, the longest prompt, the model's context."""

from __future__ import annotations

import math
from collections.abc import Iterator

from grpo_rlvr.training.findings import Finding, error, warning
from grpo_rlvr.training.setup import Setup

CUT = 0.1  # share of cut completions above which the reward judges torsos


def _truncation(s: Setup) -> Iterator[Finding]:
    seen, limit = s.seen.completions, s["max_completion_length"]
    if seen is None or limit is None:
        return
    count = len(seen.tokens)
    over = seen.over(limit)
    if over == count and seen.cut == count:
        yield (error if s["mask_truncated_completions"] else warning)(
            "nothing-ends",
            f"none of {count} inspected completions ended within {seen.limit} tokens"
            + (", and mask_truncated_completions leaves nothing to learn from" if s["mask_truncated_completions"] else ""),
            "raise max_completion_length and inspect again; if still none ends, the model never writes its end token: use chat prompts and a"
            " chat template, or a model that was tuned to answer",
        )
    elif over > CUT * count:
        p95 = seen.quantile(0.95)
        # A cut completion's length is not known, so neither is a quantile that falls on one.
        better = f"at least {2 * seen.limit}" if p95 >= seen.limit and seen.cut else str(math.ceil(p95 / 64) * 64)
        yield warning(
            "truncation",
            f"max_completion_length {limit} cuts {over} of {count} inspected completions ({over / count:.0%}; 95% end within"
            f" {'more than ' * (p95 >= seen.limit)}{p95} tokens)",
            f"set max_completion_length: {better}, or ask for shorter answers",
        )


def _context(s: Setup) -> Iterator[Finding]:
    prompt, limit = s.seen.prompt_tokens, s["max_completion_length"]
    if prompt is None or limit is None:
        return
    for name, context in (("vllm_max_model_length", s["vllm_max_model_length"] if s["use_vllm"] else None), ("the model's context", s.seen.context)):
        if context is not None and prompt + limit > context:
            # A server or an engine refuses what does not fit; the model itself goes on, outside what it was trained for.
            yield (error if name.startswith("vllm") else warning)(
                "prompt-length",
                f"the longest prompt ({prompt} tokens) + max_completion_length {limit} = {prompt + limit} exceed {name} {context}",
                f"set data.max_prompt_tokens: {context - limit} to leave longer prompts out"
                if context > limit
                else f"set max_completion_length: {context - prompt} or less"
                if context > prompt
                else "take a model with a longer context, or shorter prompts",
            )


RULES = (_truncation, _context)
