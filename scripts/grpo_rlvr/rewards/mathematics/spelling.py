r"""One spelling for the many ways to write the same formula: LaTeX, plain text, Unicode.

`\dfrac12`, `\frac{1}{2}` and a Unicode half come out alike, a thin space becomes a space, `sqrt(3)` becomes
`\sqrt{3}`. Nothing is evaluated here and nothing is cut off: what cannot be read stays in the text.
"""

from __future__ import annotations

import re

from grpo_rlvr.completions import matching_brace, strip_special_tokens
from grpo_rlvr.rewards.mathematics.arguments import with_braces
from grpo_rlvr.rewards.mathematics.symbols import FONTS, FUNCTIONS, GREEK, SYNONYMS, from_unicode

# Longer golds are refused and longer answers are wrong: it bounds every step below, also those of quadratic cost.
MAX_LENGTH = 1500

_PLAIN_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_SIZE = re.compile(r"\\(?:left|right|middle|big|Big|bigg|Bigg|bigl|bigr|Bigl|Bigr|biggl|biggr|displaystyle|textstyle|limits)(?![A-Za-z])\.?")
# A double backslash ends a row of a matrix; the space behind it is none of these.
_SPACE = re.compile(r"(\\\\)|\\(?:[,;: ]|quad|qquad|thinspace|enspace|hspace\{[^{}]*\})|~")
_BARE_FONT = re.compile(r"\\(mathbf|mathrm|mathbb|mathcal|mathit|boldsymbol|bm|hat|vec|bar|tilde) +([A-Za-z0-9])(?![A-Za-z])")
_LISTED_LETTERS = re.compile(r"[A-Z0-9](?:(?:,? (?:and|or) |, ?)[A-Z0-9])+")
_COLOUR = re.compile(r"\\(?:text)?color ?\{[^{}]*\}")
_REPEATING = re.compile(r"(?<=[.\d])\\bar ?(?=\{?\d)|(?<=[.\d])\\dot ?\{?(\d)\}?(?:(\d*)\\dot ?\{?(\d)\}?)?")
_NAMED_BASE = re.compile(
    r"([0-9][0-9A-Fa-f]*)(?: ?_ ?\{? ?(?:\\text ?\{)? ?\(?| \(?base[ -]?)"
    r"(two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen|\d{1,2})[)} ]*"
)
_BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12, "sixteen": 16}
_LOG_RATIO = re.compile(r"\\(log|ln) ?(\d+(?:\.\d+)?) ?/ ?\\\1 ?(\d+(?:\.\d+)?)(?![\d.^!])")
_UNIT_LETTERS = frozenset("mgslhNJWVL")
_MACRO = re.compile(r"\\([A-Za-z]+)")
_PLAIN_NAME = re.compile(r"(?<![\\A-Za-z])(" + "|".join(("sqrt", "infinity", "infty", "inf", "oo", *FUNCTIONS, *GREEK)) + r")(?![A-Za-z])")
_SENTENCE = re.compile(
    r"^(?:(?:so|thus|hence|therefore),? )?(?:the )?(?:final )?(?:answer|result|value|solution) ?(?:is|:|=)\s*:?|^it(?: is|'s)\s", re.I
)


def normalise(text: str) -> str:
    """The text in one spelling; the empty string if nothing is left."""
    if _PLAIN_NUMBER.fullmatch(text):
        return text
    text = strip_special_tokens(text)
    text = _unwrap(from_unicode(text))
    text = _SIZE.sub("", text.replace("\\!", "").replace("{,}", ",").replace("\\\\%", "%").replace("\\%", "%"))
    text = _SPACE.sub(lambda m: m[1] or " ", text)
    text = _BARE_FONT.sub(r"\\\1{\2}", text)
    if "color" in text:
        text = _COLOUR.sub("", text)
    text = _MACRO.sub(_alias, text)
    text = text.replace("^{\\prime}", "'").replace("^\\prime", "'").replace("^{\\circ}", "°").replace("^\\circ", "°").replace("\\{}", "\\{\\}")
    text = _unwrap(_dollars(_styles(text)))
    text = text.replace("**", "^").replace("<=", "\\le ").replace(">=", "\\ge ").replace("!=", "\\ne ")
    text = _PLAIN_NAME.sub(lambda m: "\\infty " if m[1] in ("infinity", "infty", "inf", "oo") else f"\\{m[1]} ", text)
    text = re.sub(r"(?<=\d)\s*[x]\s*(?=10\^)", r"\\times ", text)
    text = _REPEATING.sub(lambda m: f"\\overline{{{''.join(filter(None, m.groups()))}}}" if m[1] else "\\overline", text)
    if based := _NAMED_BASE.fullmatch(text):
        text = f"{based[1]}_{{{_BASES.get(based[2], based[2])}}}"
    text = _LOG_RATIO.sub(r"\\\1(\2)/\\\1(\3)", text)
    text = with_braces(text)
    text = " ".join(text.split())
    return re.sub(r"(\\[A-Za-z]+) (?=[^A-Za-z])", r"\1", text).strip()


def _unwrap(text: str) -> str:
    """Off with what stands around a whole answer: math delimiters, emphasis, a final full stop, an introduction."""
    before = None
    while text != before:
        before = text
        text = text.strip()
        text = _SENTENCE.sub("", text, count=1).strip()
        if text.endswith(".") and not text.endswith(("..", "\\.")):
            text = text[:-1].rstrip()
        for left, right in (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"), ("**", "**"), ("__", "__"), ("`", "`"), ('"', '"')):
            inner = text[len(left) : len(text) - len(right)]
            around = len(text) >= len(left) + len(right) and text.startswith(left) and text.endswith(right)
            if around and left not in inner and not inner.endswith("\\"):
                text = inner
        for macro in ("\\boxed", "\\fbox"):
            if text.startswith(macro + "{") and matching_brace(text, len(macro)) == len(text) - 1:
                text = text[len(macro) + 1 : -1]
        if text.startswith(("=", ":")) and not text.startswith("=="):
            text = text[1:]
        text = text.removeprefix("\\approx")
    return text


def _alias(match: re.Match) -> str:
    name = match[1]
    new = SYNONYMS.get(name)
    if new is None:
        return match[0]
    if new in ("and", "or"):
        return f" {new} "
    return "\\" + new if new.isalpha() or new in "{}" else new


def _dollars(text: str) -> str:
    """Paired dollars are delimiters; a single one before a number is money."""
    bare = [m.start() for m in re.finditer(r"(?<!\\)\$", text)]
    if len(bare) % 2 == 1:
        return re.sub(r"(?<!\\)\$", r"\\$", text)
    return re.sub(r"(?<!\\)\$", "", text)


def _styles(text: str) -> str:
    r"""Fonts go, words stay marked as `\text{...}`, function names become macros, and/or become bare words."""
    out, i = [], 0
    while i < len(text):
        match = _MACRO.match(text, i) if text[i] == "\\" else None
        if match and match[1] in FONTS:
            brace = match.end() + (len(text[match.end() :]) - len(text[match.end() :].lstrip()))
            close = matching_brace(text, brace) if brace < len(text) and text[brace] == "{" else None
            if close is not None:
                out.append(_styled(_styles(text[brace + 1 : close]), "".join(out[-2:])))
                i = close + 1
                continue
        if match:
            out.append(match[0])
            i = match.end()
            continue
        if text[i] == "\\" and i + 1 < len(text):
            out.append(text[i : i + 2])
            i += 2
            continue
        out.append(text[i])
        i += 1
    return "".join(out)


def _styled(inner: str, before: str) -> str:
    word = inner.strip()
    if word in _UNIT_LETTERS and before.rstrip()[-1:] in tuple("0123456789)}") or (word in _UNIT_LETTERS and inner != word and before.strip()):
        return f"\\text{{{word}}}"
    if re.match(r"[-+]?[\d.,:]*\d\s", word) or _LISTED_LETTERS.fullmatch(word):  # a number in words: \text{12 cm}, \text{3 and 8}
        return f" {word} "
    if word in FUNCTIONS:
        return f"\\{word} "
    joined = word.strip(",; ")
    if joined in ("and", "or"):
        return f" {joined} "
    if len(word) < 2 or "\\" in word or not re.search(r"[A-Za-z]{2}", word):
        return f" {word} " if inner != word else word
    return f"\\text{{{word}}}"
