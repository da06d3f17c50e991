"""Kinds of completions: what two of them have in common that a reader would call the same trick.

A completion is of many kinds at once: how it opens and ends, its frame of tags and marks, the phrases in it, whether it repeats itself, whether
the same text stands under other prompts. Numbers count as one word, so that a pattern is one pattern whatever it is filled with.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from grpo_rlvr.completions import completion_text

EDGE = 6  # words of an opening or an ending; a phrase has three
MOST_WORDS = 4000  # of a completion; what repeats after that repeated before
LOOP = 0.5  # share of 4-word sequences that stood there before
FRAME_PARTS = 12
_WORD = re.compile(r"</?[A-Za-z_][\w-]*>|[^\W\d_]+|\d+(?:[.,]\d+)*|[^\w\s]", re.UNICODE)
_MARK = re.compile(r"</?[A-Za-z_][\w-]*>|```|\\boxed|\*\*|^#{1,6} |^[-*] |^\d+[.)] ", re.MULTILINE)


class Kind(NamedTuple):
    """`family`: opening, ending, frame, phrase, loop, same text or invisible; `pattern` is what is shown."""

    family: str
    pattern: str


def words_of(text: str) -> list[str]:
    """Lower-case words, tags and signs; every number is `#`."""
    found = _WORD.findall(text[: 20 * MOST_WORDS])[:MOST_WORDS]
    return ["#" if word[0].isdigit() else word.lower() for word in found]


def kinds_of(text: str, phrases: Collection[str] | None = None) -> set[Kind]:
    """The kinds that one completion alone shows; of its phrases only those in `phrases`, if given."""
    words = words_of(text)
    found = {Kind("frame", frame(text))}
    if words:
        found |= {Kind("opening", " ".join(words[:EDGE])), Kind("ending", " ".join(words[-EDGE:]))}
        own = set(map(" ".join, zip(words, words[1:], words[2:], strict=False)))
        found |= {Kind("phrase", phrase) for phrase in (own if phrases is None else own.intersection(phrases))}
    else:
        found.add(Kind("opening", "(empty)"))
    if repetition(words) >= LOOP:
        found.add(Kind("loop", "repeats itself"))
    if not text.isascii() and any(unicodedata.category(c) in ("Cf", "Co", "Cs") for c in text):
        found.add(Kind("invisible", "holds invisible characters"))
    return found


def frame(text: str) -> str:
    """The tags and marks in their order with `...` for what stands between; a run of the same part is one, marked +."""
    parts: list[str] = []
    at = 0
    for match in _MARK.finditer(text):
        if text[at : match.start()].strip():
            parts.append("...")
        parts.append("1." if match[0][0].isdigit() else match[0].strip().lower())
        at = match.end()
    if text[at:].strip():
        parts.append("...")
    parts = _folded(parts)
    if len(parts) > FRAME_PARTS:
        parts = [*parts[:FRAME_PARTS], "(and more)"]
    return " ".join(parts) or "(empty)"


def _folded(parts: list[str]) -> list[str]:
    """One of each run of the same part, then of the same two, three and four parts, its last marked +."""
    for size in (1, 2, 3, 4):
        out, at = [], 0
        while at < len(parts):
            block, end = parts[at : at + size], at + size
            while len(block) == size and parts[end : end + size] == block:
                end += size
            if end > at + size:
                out += [*block[:-1], block[-1] + "+"]
                at = end
            else:
                out.append(parts[at])
                at += 1
        parts = out
    return parts


def repetition(words: Sequence[str]) -> float:
    """Share of the 4-word sequences that stood in the text before; 0 for texts of fewer than 40 words, where a few prove nothing."""
    if len(words) < 40:
        return 0.0
    grams = [tuple(words[i : i + 4]) for i in range(len(words) - 3)]
    return 1 - len(set(grams)) / len(grams)


def members(samples: Sequence[dict], wanted: Collection[Kind] | None = None) -> dict[Kind, set[int]]:
    """Places of the samples of each kind, with the kind "same text": one text, numbers and all, under three prompts or more.

    Args:
        wanted: the only kinds to look for; phrases are many, and most of them nobody asks about.
    """
    phrases = None if wanted is None else {kind.pattern for kind in wanted if kind.family == "phrase"}
    found: dict[Kind, set[int]] = defaultdict(set)
    places_of: dict[str, set[int]] = defaultdict(set)  # equal completions are many in a trained policy
    for i, sample in enumerate(samples):
        places_of[completion_text(sample["completion"])].add(i)
    texts: dict[str, set[int]] = defaultdict(set)
    for text, places in places_of.items():
        for kind in kinds_of(text, phrases):
            found[kind] |= places
        texts[" ".join(text.split()).lower()] |= places
    for text, places in texts.items():
        if len({samples[i]["prompt_index"] for i in places}) >= 3:
            found[Kind("same text", text)] = places
    return {kind: places for kind, places in found.items() if wanted is None or kind in wanted}
