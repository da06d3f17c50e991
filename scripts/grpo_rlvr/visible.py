"""Text that a model or a file wrote, made fit to show: nothing in it may act on a terminal, and none of it may flood the screen."""

from __future__ import annotations

import unicodedata

FOLD_CHARS = 4000
FOLD_LINES = 60


def visible(text: str) -> str:
    r"""`text` with everything that could act on a terminal spelled out: controls and escapes as `\x1b`, invisible and bidi marks as `\u202e`.

    Line feeds and tabs stay.
    """
    # A reward may print megabytes: what Python calls printable holds none of these, and is told a hundred times faster.
    return "\n".join(line if line.isprintable() else "".join(map(_shown, line)) for line in text.split("\n"))


def fold(text: str, chars: int = FOLD_CHARS, lines: int = FOLD_LINES) -> str:
    """Head and tail of a long text, with the number of characters left out between them."""
    parts = text.split("\n")
    if len(text) <= chars and len(parts) <= lines:
        return text
    head, tail = "\n".join(parts[: lines // 2]), "\n".join(parts[-(lines // 2) :])
    if len(parts) <= lines:
        head, tail = text, text
    head, tail = head[: chars // 2], tail[-(chars // 2) :]
    hidden = len(text) - len(head) - len(tail)
    return f"{head}\n[... {hidden:,} characters folded ...]\n{tail}" if hidden > 0 else text


def _shown(character: str) -> str:
    return character if character == "\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else _spelled(character)


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
