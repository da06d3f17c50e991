"""Option letters in prose: which single capitals are letters of options, and which of them the writer settles on.

One pass cuts the text into tokens; every rule looks at a bounded number of neighbours, so the time is linear in the text. Only what the
rules can see is cut: from the sentence of the first capital that stands alone to a few words behind the last one.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

# Macros, and signs that only mark a word, are no tokens.
MARKUP = "*_`\"'’‘“”()[]{}$<>#~"
_TOKEN = re.compile(rf"\\[A-Za-z]+|([^\W\d_]+(?:['’][^\W\d_]+)*|\d+|\n|[^\s\w{re.escape(MARKUP)}])")
# At least what may be an option letter; whether it is one, the tokens around it tell.
_CAPITAL = re.compile(r"(?<![^\W\d_])[A-Z](?![^\W\d_])")
# No rule looks past the end of a sentence to the left, nor further than this many tokens to the right.
_SEEN_BEHIND = 8
_SHORT = 400
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


_PLAIN = re.compile(r"\banswer is:?\s{1,2}[(*$\[\"']{0,3}([B-HJ-Z])[)*$\]\"']{0,3}[.!]?\s*\Z")
_REFUSAL = re.compile("n['’]t|" + "|".join(sorted(NEGATIVE)), re.I)


class Token(NamedTuple):
    """A word, number, sign or line end; `low` is its lower-case form."""

    low: str
    start: int
    end: int
    letter: str  # the option letter it may stand for, or ""


def declared_letters(text: str) -> frozenset[str]:
    """The letters that `text` declares; the plainest way of saying it that occurs at all decides.

    In order: "the answer is C", "I choose C", "C is the answer"; then "it is C", "so C", "C is correct"; then lines that
    are or begin with a letter; then letters in brackets or bold. Several different letters on that level mean no choice
    and all of them are returned. Denied letters ("not B", "B is wrong") do not count.
    """
    seen, last = _seen(text)
    if letter := _plainly_declared(seen, last):
        return frozenset(letter)
    if len(seen) <= _SHORT:
        return _declared_in(seen, last)
    return _declared(seen, _tokens(seen, last))


def _plainly_declared(seen: str, last: int) -> str:
    """The letter of "... the answer is B." where no other capital and no word of denial stands before it: what most answers look like."""
    match = _PLAIN.match(seen, max(seen.rfind("answer is", max(0, last - 16), last), 0))
    if match is None or match.start(1) != last or _REFUSAL.search(seen, 0, last) or _CAPITAL.search(seen, 0, last):
        return ""
    return match[1]


@lru_cache(maxsize=8192)
def _declared_in(seen: str, last: int) -> frozenset[str]:
    # The completions of a group mostly end in the same few sentences.
    return _declared(seen, _tokens(seen, last))


def _declared(text: str, tokens: list[Token]) -> frozenset[str]:
    levels: list[set[str]] = [set(), set(), set(), set()]
    listed_up_to = 0
    for i, token in enumerate(tokens):
        if not token.letter or _denied(tokens, i):
            continue
        level = _level(text, *_without_refusal(tokens, i))
        if level is None:
            continue
        if i < listed_up_to:  # its list is the tail of one that was taken
            levels[level].add(token.letter)
            continue
        letters, listed_up_to = _with_listed(tokens, i)
        levels[level] |= letters
    return frozenset(next((level for level in levels if level), set()))


def leading_letters(text: str) -> frozenset[str]:
    """The letters that a short answer begins with ("(C) Mercury", "A, B", "Option C"), and those its further lines begin with."""
    tokens = _tokens(text)
    first = next((i for i, t in enumerate(tokens) if t.low not in NOUNS | {"the", "\n"}), None)
    if first is None or not tokens[first].letter or _denied(tokens, first):
        return frozenset()
    letters, _ = _with_listed(tokens, first, loose=True)
    for i in range(first + 1, len(tokens)):
        if tokens[i].letter and _begins_line(text, tokens, i):
            letters.add(tokens[i].letter)
    return frozenset(letters)


def _seen(text: str) -> tuple[str, int]:
    """The part of `text` that can matter to `_declared`, and where its last capital stands; empty where no capital stands alone."""
    first = _CAPITAL.search(text)
    if first is None:
        return "", 0
    at = first.start()
    start = max(text.rfind(".", 0, at), text.rfind("!", 0, at), text.rfind("?", 0, at), text.rfind(";", 0, at), 0)
    for match in _CAPITAL.finditer(text, at):
        at = match.start()
    return text[start:], at - start


def _tokens(text: str, last: int | None = None) -> list[Token]:
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


def _denied(tokens: list[Token], i: int) -> bool:
    """ "not B", "B is wrong", "B and C are incorrect" are no choices."""
    if i and (tokens[i - 1].low in NEGATIVE or tokens[i - 1].low.endswith("n't")):
        return True
    verb = False
    for token in tokens[i + 1 : i + 6]:
        if verb and (token.low in NEGATIVE or token.low == "out"):
            return True
        if token.low in VERBS or token.low.endswith("n't"):
            if token.low in ("isn't", "cannot") or token.low.endswith("n't"):
                return True
            verb = True
        elif not verb and not token.letter and token.low not in ("and", "or", ",") or verb and not token.low[0].isalpha():
            return False
    return False


def _without_refusal(tokens: list[Token], i: int) -> tuple[list[Token], int]:
    """ "not A but B" says of B what "B" in its place would: the tokens around letter `i` and its index among them."""
    k = i - 1
    if k < 3 or tokens[k].low not in ("but", "rather"):
        return tokens, i
    k -= 1 + (tokens[k - 1].low == ",")
    if k < 1 or not tokens[k].letter or tokens[k - 1].low != "not":
        return tokens, i
    before = tokens[max(0, k - 30) : k - 1]
    return before + tokens[i : i + 8], len(before)


def _level(text: str, tokens: list[Token], i: int) -> int | None:
    """How plainly letter `i` is declared: 0 is plainest, None not at all."""
    window: list[str] = []
    j = i - 1
    while j >= 0 and len(window) < 9 and tokens[j].low in FILLER and not tokens[j].letter:
        window.append(tokens[j].low)
        j -= 1
    linked = any(w in LINKS for w in window)
    sentence: list[str] = []
    while j >= 0 and len(sentence) < 12 and tokens[j].low not in (".", "!", "?", ";", "\n") and not tokens[j].letter:
        sentence.append(tokens[j].low)
        j -= 1
    before = window + sentence if linked else window
    # A word of denial next to the filler belongs to it, be it linked or not.
    refused = any(w in NEGATIVE or w.endswith("n't") for w in (sentence if linked else sentence[:2]))
    if refused and j >= 0 and tokens[j].letter and {",", "so", "thus", "therefore", "hence"} & set(window) and _denied(tokens, j):
        refused = False  # "A is wrong, so B": that was said of A
    after = _words_after(tokens, i)
    if not refused:
        if window and (ANSWERS & set(window) or (linked and (ANSWERS & set(before) or (NOUNS & set(before) and PRAISE & set(before))))):
            return 0
        if CHOOSING & set(window) or ("with" in window and {"go", "going"} & set(window)) or {"opt", "for"} <= set(window):
            return 0
    if after and (ANSWERS & set(after) or (NOUNS & set(after) and PRAISE & set(after))):
        return 0
    if not refused and window:
        if linked and {"it", "it's", "that", "that's", "this"} & set(window):
            return 1
        if {"so", "thus", "therefore", "hence", "say"} & set(window):
            return 1
        if linked and {"choice", "selection", "pick"} & set(window):
            return 1
        if window[0] == ":" and (NOUNS | PRAISE) & set(window):
            return 1
    if after and PRAISE & set(after):
        return 1
    if _begins_line(text, tokens, i):
        return 2
    return 3 if text[tokens[i].start - 1 : tokens[i].start] in ("(", "*") and text[tokens[i].end : tokens[i].end + 1] in (")", "*") else None


def _words_after(tokens: list[Token], i: int) -> list[str]:
    """The words of "is (the) correct (answer)" behind letter `i`; empty if no linking verb follows it."""
    words = [t.low for t in tokens[i + 1 : i + 7]]
    if not words or words[0] not in ("is", "was", "must", "seems", "would"):
        return []
    return [w for k, w in enumerate(words) if all(x in FILLER or x == "seems" for x in words[: k + 1])]


def _begins_line(text: str, tokens: list[Token], i: int) -> bool:
    """The letter is the first of its line, and is alone there or marked: "C", "(C)", "C) Mercury", "C. Mercury"."""
    if i and tokens[i - 1].low not in ("\n", "-", "•"):
        return False
    alone = (
        i + 1 == len(tokens) or tokens[i + 1].low == "\n" or (tokens[i + 1].low in (".", "!") and (i + 2 == len(tokens) or tokens[i + 2].low == "\n"))
    )
    return alone or text[tokens[i].end : tokens[i].end + 1] in (")", ".", ":", "]", "*")


def _with_listed(tokens: list[Token], i: int, loose: bool = False) -> tuple[set[str], int]:
    """Letter `i` with those listed after it ("A or B", "A, B, C", one a line), and where the list ends.

    `loose`: full stops, line ends and nothing at all list too.
    """
    letters = {tokens[i].letter}
    joined = CONNECTORS | {".", "\n", ":", "?", "!"} if loose else CONNECTORS | {"\n"}
    k = i + 1
    while k < len(tokens):
        step = k
        while step < len(tokens) and not tokens[step].letter and tokens[step].low in joined and step - k < 6:
            step += 1
        if step >= len(tokens) or not tokens[step].letter or _denied(tokens, step):
            break
        follower = tokens[step + 1].low if step + 1 < len(tokens) else "\n"
        # "C, A has ..." begins a new clause; after a line end only a bare letter goes on with the list.
        if follower in VERBS or (not loose and follower != "\n" and any(t.low == "\n" for t in tokens[k:step])):
            break
        letters.add(tokens[step].letter)
        k = step + 1
    return letters, k
