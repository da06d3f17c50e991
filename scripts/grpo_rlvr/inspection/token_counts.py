"""Recorded lengths that cannot all be one tokenizer's: the same text with other counts, again and again.

A sampled text can be tokenised in more than one way ("12" as one token or as two), so a model's own samples of one text differ in length now
and then. Where most of them do, the counts were made up, or the lines come from several models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.completions import completion_text
from grpo_rlvr.inspection.jsonl import canonical

SHARE, LEAST = 1 / 3, 5  # of the repeated texts, and how many of these there must be


def uneven_counts(samples: Sequence[Mapping]) -> dict[str, Any] | None:
    """`repeated` (texts that stand there more than once with a count), `uneven` (those with more than one count) and an `example`.

    None if no more than a third are uneven, or there are fewer than five. How it ended is part of a text: an end token counts where there is one.
    """
    counts: dict[str, list[int]] = {}
    first: dict[str, Mapping] = {}
    for sample in samples:
        if (count := _count(sample)) is not None:
            key = canonical([sample["prompt"], sample["completion"], sample["finish"]])
            counts.setdefault(key, []).append(count)
            first.setdefault(key, sample)
    repeated = [key for key, values in counts.items() if len(values) > 1]
    uneven = [key for key in repeated if len(set(counts[key])) > 1]
    if len(repeated) < LEAST or len(uneven) <= SHARE * len(repeated):
        return None
    example = {"completion": completion_text(first[uneven[0]]["completion"]), "tokens": sorted(set(counts[uneven[0]]))}
    return {"repeated": len(repeated), "uneven": len(uneven), "example": example}


def uneven_warning(samples: Sequence[Mapping]) -> list[str]:
    """The same in words; empty if there is nothing to say."""
    if (found := uneven_counts(samples)) is None:
        return []
    text, tokens = found["example"]["completion"], ", ".join(map(str, found["example"]["tokens"][:8]))
    return [
        f"{found['uneven']} of the {found['repeated']} texts that were recorded more than once have token counts that disagree, e.g. "
        f"{text if len(text) <= 80 else text[:80] + '...'!r} with {tokens}: one model under one tokenizer hardly writes this; "
        "find out how the file was made"
    ]


def _count(sample: Mapping) -> int | None:
    """The length in tokens as the line gave it: our own key, or the one of an API's answer."""
    value = sample.get("tokens")
    value = sample["columns"].get("completion_tokens") if value is None else value
    return value if type(value) is int else None
