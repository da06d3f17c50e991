"""What a closing message says, by clauses: a word counts unless the clause denies it."""

from __future__ import annotations

import re

NEAR = 100  # characters before and after a word in which it may be denied
_BEFORE = r"(?:\b(?:no need (?:for|of|to)|not?|never|cannot|without|skip(?:ping)?|avoid|instead of|rather than)|n['’]t)\s+(?:[\w'’-]+\s+){0,3}$"
_AFTER = (
    r"^\W*(?:[\w'’-]+\s+){0,2}(?:(?:is|are|was|were|would be)\s+(?:not\b|un)|isn['’]t|aren['’]t|not\s+(?:need|necess|requir)|unnecessary|can wait)"
)


def clauses(text: str) -> list[str]:
    """The message cut at ends of sentences, commas, dashes and line ends."""
    plain = re.sub(r"[*_`#>|]+", " ", text)
    return [c.strip() for c in re.split(r"(?<=[.!?])\s+|[;:,\n]|\s[-–—]+\s|\bbut\b", plain) if c.strip()]


def says(text: str, *patterns: str) -> str:
    """The first clause in which one of the patterns stands undenied, else ""."""
    for clause in clauses(text):
        for pattern in patterns:
            for match in re.finditer(pattern, clause, re.IGNORECASE):
                before, after = clause[max(0, match.start() - NEAR) : match.start()], clause[match.end() : match.end() + NEAR]
                if not re.search(_BEFORE, before, re.IGNORECASE) and not re.search(_AFTER, after, re.IGNORECASE):
                    return clause
    return ""


def mentions(text: str, *patterns: str) -> str:
    """The first place where one of the patterns stands, denied or not, with what is around it; else ""."""
    for pattern in patterns:
        match = re.search(pattern, text, re.IGNORECASE)
        if match:
            return " ".join(text[max(0, match.start() - 60) : match.end() + 60].split())
    return ""


def said(found: str, wanted: str) -> tuple[bool, str]:
    """An outcome: passed with the words as evidence, or failed with what was looked for."""
    return bool(found), f"it says: {found!r}" if found else f"nothing says {wanted}"
