"""A unit behind a number or formula: found, taken off, and brought to one name."""

from __future__ import annotations

import re

# One name for each spelling. A unit not in this table is kept as it is written (apples, students).
_NAMES = {
    "mm": "millimeter millimetre", "cm": "centimeter centimetre", "dm": "decimeter", "km": "kilometer kilometre", "m": "meter metre",
    "in": "inch inche", "ft": "foot feet",
    "yd": "yard", "mi": "mile", "mg": "milligram", "g": "gram", "kg": "kilogram", "lb": "pound lbs", "oz": "ounce",
    "ml": "milliliter millilitre", "l": "liter litre",
    "s": "second sec", "min": "minute", "h": "hour hr hrs", "day": "day", "week": "week", "month": "month", "year": "year yr yrs",
    "°": "degree deg", "rad": "radian",
    "hz": "hertz", "n": "newton", "j": "joule", "w": "watt", "v": "volt", "pa": "pascal", "mol": "mole", "$": "dollar usd", "cent": "cent",
    "pm": "pm", "am": "am", "€": "euro eur", "£": "gbp",
    "unit": "unit", "%": "percent",
}  # fmt: skip
_CANONICAL = {word: name for name, words in _NAMES.items() for word in (name, *words.split())}
_PREFIX_WORDS = ("square", "sq", "cubic", "cu")
_SHORTHANDS = {"mph": "mi/h", "kph": "km/h", "kmh": "km/h", "kmph": "km/h", "mps": "m/s"}
_POWER = r"(?: ?\^ ?\{-?\d\})?"
# The degrees in "sin 30°" belong to the function.
_ANGLE_TAKER = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_BARE_WORD = r"[A-Za-z]+(?: ?\^ ?\{-?\d\})?"
# "8\text{ cm}^{2}", "8\text{ m}/\text{s}"
_MARKED = re.compile(rf"^(?P<value>.*\S) ?\\text ?\{{(?P<unit>[^{{}}\\]*)\}}(?P<more>{_POWER}(?: ?/ ?\\text ?\{{[^{{}}\\]*\}}{_POWER})?)$")
# "EUR 8680", as "€8680"
_CURRENCY = re.compile(r"(?P<sign>-?) ?(?:\\text ?\{ ?)?(?P<unit>USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK)(?: ?\})? ?(?P<value>[-+]?[.\d].*)")
_TEN_TO = r"(?: ?\\(?:times|cdot) ?10 ?\^ ?\{[-+]?\d+\})?"
_BARE = re.compile(rf"^(?P<value>[-+\d.,/ ]*[\d.]{_TEN_TO})(?P<space> ?)(?P<unit>{_BARE_WORD}(?:(?: ?/ ?| ){_BARE_WORD})*)$")


def split_unit(text: str) -> tuple[str, str] | None:
    """Value and canonical unit of a normalised text; None if it carries no unit.

    Marked units (a LaTeX text behind anything) always count. Bare letters count behind a plain number only, and only
    if they are words or known units: `5x` is a product.
    """
    for sign in ("\\$", "€", "£"):
        if text.startswith(sign):
            return text[len(sign) :].strip(), sign[-1]
        if text.startswith("-" + sign):
            return "-" + text[len(sign) + 1 :].strip(), sign[-1]
        if text.endswith(sign):
            return text[: -len(sign)].strip(), sign[-1]
    if match := _CURRENCY.fullmatch(text):
        return match["sign"] + match["value"].strip(), canonical(match["unit"])
    if text.endswith("°") and len(text) > 1 and not _ANGLE_TAKER.search(text):
        return text[:-1].strip(), "°"
    if text.endswith(("° C", "°C", "° F", "°F", "°\\text{C}", "°\\text{F}")):
        value, _, scale = text.partition("°")
        return value.strip(), "°" + scale.strip("} ")[-1]
    if match := _MARKED.match(text):
        return match["value"].strip(), canonical(match["unit"] + match["more"])
    if match := _BARE.match(text):
        words = re.findall(r"[A-Za-z]+", match["unit"])
        if all(_known(w) for w in words) if len(words) == 1 and len(words[0]) < 3 else all(len(w) > 2 or _known(w) for w in words):
            single_letter = len(words) == 1 and len(words[0]) == 1
            if not single_letter or match["space"]:
                return match["value"].strip(), canonical(match["unit"])
    return None


def _known(word: str) -> bool:
    return _name(word) in _NAMES or word in ("per", "of", *_PREFIX_WORDS)


def _name(word: str) -> str:
    lower = word.lower()
    for form in (lower, lower[:-1] if lower.endswith("s") and len(lower) > 2 else lower):
        if form in _CANONICAL:
            return _CANONICAL[form]
    return lower[:-1] if lower.endswith("s") and len(lower) > 3 else lower


def canonical(unit: str) -> str:
    """`square centimeters`, `cm^{2}` and `cm²` are one unit; so are singular and plural."""
    unit = _SHORTHANDS.get(unit.strip().lower(), unit)
    unit = unit.replace("\\text", " ").replace("{", "").replace("}", "").replace("^ ", "^").replace(" per ", "/")
    words = [w for w in re.split(r"([/^ ])", unit) if w and not w.isspace()]
    power = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}.get(words[0].lower()) if len(words) > 1 else None
    if power:
        words = [words[1], "^", power, *words[2:]]
    return "".join(w if w in "/^" or w.lstrip("-").isdigit() else _name(w.strip(".")) for w in words)
