"""A text as the tokens that the rules of `choice_words` look at, and the words they know.

Only what the rules can see is cut: from the sentence of the first capital that stands alone to a few words behind the last one.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

# Macros, and signs that only mark a word, are no tokens.
MARKUP = "*_`\"'’‘“”()[]{}$<>#~"
_TOKEN = re.compile(rf"\\[A-Za-z]+|([^\W\d_]+(?:['’][^\W\d_]+)*|\d+|\n|[^\s\w{re.escape(MARKUP)}])")
# At least what may be an option letter; whether it is one, the tokens around it tell.
CAPITAL = re.compile(r"(?<![^\W\d_])[A-Z](?![^\W\d_])")
# No rule looks past the end of a sentence to the left, nor further than this many tokens to the right.
_SEEN_BEHIND = 8
BEFORE_MARKED, AFTER_MARKED = set("*_`\"'“([{$"), set("*_`\"'”)]}$:")

LINKS = {"is", "was", "be", "are", "were", "it's", "that's", "remains", ":", "=", "→"}
NEGATIVE = {"not", "never", "wrong", "incorrect", "false", "cannot", "neither", "nor", "eliminate", "eliminated", "except", "unlikely"}
PRAISE = {"correct", "right", "best", "true", "chosen", "final", "proper", "appropriate", "accurate", "my", "our"}
NOUNS = {"option", "options", "choice", "choices", "selection", "statement", "alternative", "letter", "one"}
ANSWERS = {"answer", "answers", "ans"}
CHOOSING = {"choose", "chose", "choosing", "select", "selecting", "selected", "pick", "picking", "picked"}
# Words that may stand between a cue and its letter.
FILLER = (
    LINKS | PRAISE | NOUNS | ANSWERS | CHOOSING
    | {"the", "a", "an", "clearly", "therefore", "thus", "hence", "so", "simply", "definitely", "probably", "obviously", "indeed", "just", "either",
       "both", "then", "most", "likely", "must", "would", "will", "should", "has", "have", "to", "it", "that", "this", "which", "with", "go", "going",
       "for", "opt", "say", "certainly", "surely", "actually", "i'd", "i'll", "i", "we", ",", "-", "—", "–", "\n"}
)  # fmt: skip
CONNECTORS = {"or", "and", "either", "also", "possibly", "maybe", "perhaps", "option", "&", ",", ";", "/", "|"}
# After "A" or "I", these show that the capital was a letter, not the article or the pronoun.
GOES_ON = {
    "or", "and", "because", "since", "as", "for", "due", "is", "was", "are", "which", "given", "but", "not", "rather", "instead", "based", "per",
    "by", "here", "if", "while", "though", "although", "so", "that", "where", "must", "seems", "only", "alone", "i", "with", "would",
}  # fmt: skip
VERBS = {
    "is",
    "was",
    "are",
    "were",
    "has",
    "have",
    "can",
    "could",
    "does",
    "do",
    "would",
    "will",
    "must",
    "seems",
    "cannot",
    "isn't",
    "refers",
    "says",
}


class Token(NamedTuple):
    """A word, number, sign or line end; `low` is its lower-case form."""

    low: str
    start: int
    end: int
    letter: str  # the option letter it may stand for, or ""


def seen_text(text: str) -> tuple[str, int]:
    """The part of `text` that can matter to `choice_words`, and where its last capital stands; empty where no capital stands alone."""
    first = CAPITAL.search(text)
    if first is None:
        return "", 0
    at = first.start()
    start = max(text.rfind(".", 0, at), text.rfind("!", 0, at), text.rfind("?", 0, at), text.rfind(";", 0, at), 0)
    for match in CAPITAL.finditer(text, at):
        at = match.start()
    return text[start:], at - start


def tokens_of(text: str, last: int | None = None) -> list[Token]:
    """The tokens of `text`, and of those behind `last` only the next few."""
    tokens: list[Token] = []
    lone: list[int] = []
    behind = 0
    last = len(text) if last is None else last
    for match in _TOKEN.finditer(text):
        word = match[1]
        if word is None:
            continue
        start, end = match.span()
        if start > last:
            behind += 1
            if behind > _SEEN_BEHIND:
                break
        letter = ""
        if end - start == 1 and "A" <= word <= "Z" and _apart(text, start, end):
            letter = word
            lone.append(len(tokens))
        low = word.lower()
        tokens.append(Token(low.replace("’", "'") if "’" in low else low, start, end, letter))
    for i in lone:
        if tokens[i].letter in "AI" and _is_word(text, tokens, i):
            tokens[i] = tokens[i]._replace(letter="")
    return tokens


def _apart(text: str, start: int, end: int) -> bool:
    """Not a part of something longer: B12, C++, U.S., A-level, x_C."""
    before, after, later = text[start - 1 : start], text[end : end + 1], text[end + 1 : end + 2]
    if before == "=" and text[max(0, start - 7) : start - 1].lower().endswith("answer"):
        before = ""
    if before.isalnum() or (before and before in "_\\+=^") or (before in (".", "-") and text[start - 2 : start - 1].isalnum()):
        return False
    if not after.isascii() and unicodedata.combining(after):
        return False
    return not (after.isalnum() or (after and after in "_^+#=") or (after in (".", "-", "'", "’") and later.isalnum()))


def _is_word(text: str, tokens: list[Token], i: int) -> bool:
    """Whether this A or I is the article or the pronoun: a word follows it and nothing marks it as a letter."""
    token = tokens[i]
    if text[token.start - 1 : token.start] in BEFORE_MARKED and token.start and text[token.end : token.end + 1] in AFTER_MARKED:
        return False
    if text[token.end : token.end + 1] in (")", ".", ":", ",", "]"):
        return False
    follower = tokens[i + 1] if i + 1 < len(tokens) else None
    return follower is not None and follower.low[0].isalpha() and not follower.letter and follower.low not in GOES_ON
