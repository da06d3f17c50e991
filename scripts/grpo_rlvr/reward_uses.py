"""What the rest of the library has to know of a built-in reward without loading it: what it judges, where it reads, whose code decides with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Use:
    """`role`: "correct", "form", or "other" for one that shapes, wraps or asks. `tags`: it reads a final `<answer>`, or asks for the tags.

    `libraries`: those that decide its score; None where that depends on what it wraps or runs.
    """

    role: str
    tags: bool = True
    libraries: tuple[str, ...] | None = ()


USES: dict[str, Use] = {
    "format": Use("form"),
    "partial_format": Use("form"),
    "exact": Use("correct"),
    "math": Use("correct", libraries=("math-verify", "latex2sympy2_extended", "sympy")),
    "choice": Use("correct"),
    "schema": Use("correct", libraries=("jsonschema",)),
    "json": Use("correct"),
    "tool_calls": Use("correct", tags=False),
    "code": Use("correct", tags=False, libraries=None),
    "length": Use("other", tags=False, libraries=None),
    "overlong": Use("other", tags=False),
    "judge": Use("other", tags=False, libraries=None),
}
LIBRARIES = sorted({name for use in USES.values() for name in use.libraries or ()})
