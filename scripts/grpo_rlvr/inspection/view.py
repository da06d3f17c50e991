"""A sample as a reader sees it, as data: which part of a completion is reasoning, which the answer that rewards read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from grpo_rlvr.completions import after_reasoning_span, answer_span, completion_text

FINISH = {"length": "cut off at the length limit"}


def sample_view(sample: dict, gold_names: Sequence[str]) -> dict:
    """`prompt` and `completion` as lists of messages `{role, scored, parts}`, `gold` as `[name, text]` pairs, and `facts` in words.

    A part is `[kind, text]` with kind text, reasoning, final or answer; joined, the parts of a message are its text. Holds no score.
    """
    columns = {k: v for k, v in sample["columns"].items() if k in gold_names} or sample["columns"]
    completion = messages(sample["completion"], scored=True)
    facts = [FINISH[sample["finish"]]] if sample["finish"] in FINISH else []
    facts += [f"{sample['tokens']:,} tokens"] if sample.get("tokens") is not None else []
    if not any(kind == "answer" for message in completion for kind, _ in message["parts"]):
        facts.append("no marked answer")
    return {
        "sample_id": sample["sample_id"],
        "prompt": messages(sample["prompt"]),
        "completion": completion,
        "gold": [[name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)] for name, value in columns.items()],
        "facts": facts,
    }


def messages(content: str | list, scored: bool = False) -> list[dict]:
    """Text or chat messages as a list; of a completion, the message that rewards score is taken apart."""
    if isinstance(content, str):
        return [{"role": None, "scored": scored, "parts": parts(content) if scored else [["text", content]]}]
    turns = [turn if isinstance(turn, dict) else {"content": str(turn)} for turn in content]
    last = max((i for i, turn in enumerate(turns) if turn.get("role", "assistant") == "assistant"), default=-1) if scored else -1
    shown = []
    for i, turn in enumerate(turns):
        text = completion_text({"content": turn.get("content")})
        said = parts(text) if i == last else [["text", text]]
        extra = {k: v for k, v in turn.items() if k not in ("role", "content") and v}
        said += [["text", json.dumps(extra, ensure_ascii=False, indent=1, default=str)]] if extra else []
        shown.append({"role": _text(turn.get("role")), "scored": i == last, "parts": [part for part in said if part[1]]})
    return shown


def parts(text: str) -> list[list[str]]:
    """`text` cut where the library's rewards cut it: reasoning, what follows it (final), and in that the answer."""
    start, end = after_reasoning_span(text)
    if end < start:  # nothing follows the reasoning
        start = end = len(text)
    cuts = [["reasoning", text[:start]], ["final", text[start:end]], ["reasoning", text[end:]]]
    span = answer_span(text)
    if span is not None and span[0] < span[1]:
        cuts[1:2] = [["final", text[start : span[0]]], ["answer", text[span[0] : span[1]]], ["final", text[span[1] : end]]]
    return [cut for cut in cuts if cut[1]]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
