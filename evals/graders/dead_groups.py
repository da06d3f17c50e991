"""A run whose groups teach nothing, and the questions that would."""

from __future__ import annotations

import json
import re

from graders.left import Left
from graders.task import Outcome
from graders.words import mentions, says

OUT = "data/train_filtered.jsonl"
LEAST = 15
CAUSE = (
    r"zero[- _](?:reward[- ])?(?:std|variance|standard|spread|advantage)",
    r"frac_reward_zero_std",
    r"dead groups?",
    r"(?:all|every|entire)[- ]?(?:\w+ ){0,3}(?:right|correct|solved)[^.\n]{0,60}(?:wrong|none|never|incorrect|unsolved|failed)",
    r"(?:always|every time)[^.\n]{0,60}never",
    r"(?:no|without|identical|same|equal)[^.\n]{0,40}(?:variance|rewards?|advantage|signal|contrast)",
    r"advantages?[^.\n]{0,30}(?:zero|0\b|vanish)",
)


def grade(left: Left) -> list[Outcome]:
    given, kept = left.rows("data/train.jsonl"), left.rows(OUT)
    ids = [str(row.get("id")) for row in kept]
    originals = {json.dumps(row, sort_keys=True) for row in given}
    strange = [row.get("id") for row in kept if json.dumps(row, sort_keys=True) not in originals]
    useful = solved_sometimes(left, given)
    dead = sorted(set(ids) - useful)
    percent = mentions(
        left.said,
        r"\b(?:7[5-9]|8[0-5])(?:\.\d+)? ?%",
        r"\b0?\.(?:7[5-9]|8[0-5])\d*\b",
        r"\bfour (?:of|out of) five",
        r"\b4 (?:of|out of|/) ?5\b",
        r"\b72 (?:of|out of|/|questions|prompts|groups)",
    )
    cause = mentions(left.said, *CAUSE)
    blamed = says(
        left.answer,
        r"(?:problem|cause|reason|culprit|issue)\w* (?:is|are|was) (?:the |your |a |too \w+ )*(?:learning[- ]rate|lr)",
        r"\b(?:raise|lower|increase|decrease|reduce|tune) (?:the |your )?(?:learning[- ]rate|lr)\b",
    )
    return [
        (
            bool(kept) and not strange and len(set(ids)) == len(ids),
            f"{len(kept)} rows, {len(strange)} not of train.jsonl, {len(ids) - len(set(ids))} repeated",
        ),
        (bool(kept) and not dead, f"solved always or never: {', '.join(dead[:8])}" if dead else f"none of {len(ids)}"),
        (len(set(ids) & useful) >= LEAST, f"{len(set(ids) & useful)} of {len(useful)}"),
        (bool(cause and percent), f"cause: {cause!r}; share: {percent!r}"),
        (bool(left.answer.strip()) and not blamed, f"it says: {blamed!r}" if blamed else "not blamed"),
    ]


def solved_sometimes(left: Left, given: list[dict]) -> set[str]:
    """Ids of the questions with both right and wrong answers among the recorded ones (ours, whatever became of the copy)."""
    golds = {row["id"]: row["answer"] for row in map(json.loads, left.inputs["data/train.jsonl"].read_text(encoding="utf-8").splitlines())}
    seen: dict[str, set[bool]] = {}
    for row in map(json.loads, left.inputs["samples/base_model_k8.jsonl"].read_text(encoding="utf-8").splitlines()):
        found = re.findall(r"<answer>(.*?)</answer>", row["completion"])
        seen.setdefault(row["id"], set()).add(bool(found) and found[-1] == golds[row["id"]])
    return {name for name, kinds in seen.items() if kinds == {True, False}}
