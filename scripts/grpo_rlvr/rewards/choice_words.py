"""Which of the option letters in a text the writer settles on.

Every rule looks at a bounded number of neighbours of a letter, so the time is linear in the text.
"""

from __future__ import annotations

import re
from functools import lru_cache

from grpo_rlvr.rewards.choice_tokens import (
    ANSWERS,
    CAPITAL,
    CHOOSING,
    CONNECTORS,
    FILLER,
    LINKS,
    NEGATIVE,
    NOUNS,
    PRAISE,
    VERBS,
    Token,
    seen_text,
    tokens_of,
)  # fmt: skip

_SHORT = 400
_PLAIN = re.compile(r"\banswer is:?\s{1,2}[(*$\[\"']{0,3}([B-HJ-Z])[)*$\]\"']{0,3}[.!]?\s*\Z")
_REFUSAL = re.compile("n['’]t|" + "|".join(sorted(NEGATIVE)), re.I)


def declared_letters(text: str) -> frozenset[str]:
    """The letters that `text` declares; the plainest way of saying it that occurs at all decides.

    In order: "the answer is C", "I choose C", "C is the answer"; then "it is C", "so C", "C is correct"; then lines that
    are or begin with a letter; then letters in brackets or bold. Several different letters on that level mean no choice
    and all of them are returned. Denied letters ("not B", "B is wrong") do not count.
    """
    seen, last = seen_text(text)
    if letter := _plainly_declared(seen, last):
        return frozenset(letter)
    if len(seen) <= _SHORT:
        return _declared_in(seen, last)
    return _declared(seen, tokens_of(seen, last))


def _plainly_declared(seen: str, last: int) -> str:
    """The letter of "... the answer is B." where no other capital and no word of denial stands before it: what most answers look like."""
    match = _PLAIN.match(seen, max(seen.rfind("answer is", max(0, last - 16), last), 0))
    if match is None or match.start(1) != last or _REFUSAL.search(seen, 0, last) or CAPITAL.search(seen, 0, last):
        return ""
    return match[1]


@lru_cache(maxsize=8192)
def _declared_in(seen: str, last: int) -> frozenset[str]:
    # The completions of a group mostly end in the same few sentences.
    return _declared(seen, tokens_of(seen, last))


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
    tokens = tokens_of(text)
    first = next((i for i, t in enumerate(tokens) if t.low not in NOUNS | {"the", "\n"}), None)
    if first is None or not tokens[first].letter or _denied(tokens, first):
        return frozenset()
    letters, _ = _with_listed(tokens, first, loose=True)
    for i in range(first + 1, len(tokens)):
        if tokens[i].letter and _begins_line(text, tokens, i):
            letters.add(tokens[i].letter)
    return frozenset(letters)


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
