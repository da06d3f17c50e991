"""The symbols of formulas: Unicode to LaTeX, LaTeX synonyms to one name, fonts and functions."""

from __future__ import annotations

import re
import unicodedata

UNICODE = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "÷": "/", "∕": "/", "⁄": "/",
    "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "∞": r"\infty ", "∪": r"\cup ", "∩": r"\cap ",
    "∈": r"\in ", "∅": r"\emptyset ", "±": r"\pm ", "∓": r"\mp ",
    "√": r"\sqrt ", "∛": r"\sqrt[3] ", "∜": r"\sqrt[4] ", "°": r"^\circ ", "º": r"^\circ ", "′": "'",
    "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}",
    "π": r"\pi ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "ε": r"\epsilon ", "θ": r"\theta ", "λ": r"\lambda ",
    "μ": r"\mu ",
    "σ": r"\sigma ", "τ": r"\tau ", "φ": r"\phi ", "ω": r"\omega ", "…": r"\ldots ", "∣": "|",
    "“": '"', "”": '"', "’": "'", "。": ".", "、": ",", "﹣": "-",
}  # fmt: skip
SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "0123456789-+n", strict=True))
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))

SYNONYMS = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom", "leq": "le", "leqslant": "le", "geq": "ge",
    "geqslant": "ge",
    "neq": "ne", "infin": "infty", "varnothing": "emptyset", "bigcup": "cup", "rarr": "to", "rightarrow": "to", "dots": "ldots", "cdots": "ldots",
    "lbrace": "{", "rbrace": "}", "lvert": "|", "rvert": "|", "vert": "|", "mid": "|", "degree": "^\\circ", "lt": "<", "gt": ">", "ast": "*",
    "varepsilon": "epsilon", "varphi": "phi", "land": "and", "wedge": "and", "lor": "or", "vee": "or",
}  # fmt: skip
FONTS = ("text", "textbf", "textit", "textrm", "textsf", "textnormal", "mbox", "hbox", "mathrm", "mathbf", "mathit", "mathsf", "mathnormal",
          "boldsymbol", "bm", "emph",
          "operatorname", "ensuremath", "underline")  # fmt: skip
FUNCTIONS = (
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "sin",
    "cos",
    "tan",
    "cot",
    "sec",
    "csc",
    "exp",
    "ln",
    "log",
    "gcd",
    "lcm",
    "max",
    "min",
    "det",
)
GREEK = ("pi", "alpha", "beta", "gamma", "delta", "theta", "lambda", "mu", "sigma", "phi", "omega")


_WHITE = re.compile(r"\s")
_ROOT_OF_NUMBER = re.compile(r"([√∛∜])\s*(\d+(?:\.\d+)?)")
_ROOTS = {"√": r"\sqrt", "∛": r"\sqrt[3]", "∜": r"\sqrt[4]"}


def from_unicode(text: str) -> str:
    """LaTeX for Unicode signs; raised and lowered digits become exponents and indices where they stand behind something.

    The Unicode root covers the whole number behind it; in LaTeX `\\sqrt12` is the root of 1, times 2.
    """
    if text.isascii():
        return _WHITE.sub(" ", text)
    text = _ROOT_OF_NUMBER.sub(lambda m: f"{_ROOTS[m[1]]}{{{m[2]}}}", text)
    out = []
    raised = lowered = False
    for i, c in enumerate(text):
        if c in SUPERSCRIPTS and (raised or (i > 0 and (text[i - 1].isalnum() or text[i - 1] in ")]}°"))):
            out.append(("" if raised else "^{") + SUPERSCRIPTS[c])
            raised = True
            continue
        if raised:
            out.append("}")
            raised = False
        if c in SUBSCRIPTS and (lowered or i > 0):
            out.append(("" if lowered else "_{") + SUBSCRIPTS[c])
            lowered = True
            continue
        if lowered:
            out.append("}")
            lowered = False
        if c in UNICODE:
            out.append(UNICODE[c])
        elif "\uff01" <= c <= "\uff5e":  # full-width forms of ASCII
            out.append(chr(ord(c) - 0xFEE0))
        elif unicodedata.category(c) == "No" and "⁄" in unicodedata.normalize("NFKC", c):
            top, bottom = unicodedata.normalize("NFKC", c).split("⁄")
            out.append(f" \\frac{{{top}}}{{{bottom}}}" if bottom else c)
        elif unicodedata.category(c) == "Cf":
            continue
        else:
            out.append(" " if c.isspace() else c)
    if raised or lowered:
        out.append("}")
    return "".join(out)
