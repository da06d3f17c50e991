"""Text of a model on a terminal: nothing in it may act there, and none of it may flood the screen."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


def show_messages(content: str | list[dict]) -> str:
    """A prompt or completion as text for people; roles of messages in brackets."""
    from grpo_rlvr.completions import completion_text

    if isinstance(content, str):
        return content
    shown = []
    for message in content:
        extra = {k: v for k, v in message.items() if k not in ("role", "content") and v}
        text = completion_text({"content": message.get("content")}) + (f"\n{extra}" if extra else "")
        shown.append(f"[{message.get('role')}] {text}")
    return "\n".join(shown)


@contextlib.contextmanager
def single_keys(fd: int) -> Iterator[None]:
    """Let keys arrive one by one, without Enter and unechoed; signals such as Ctrl-C keep working. Does nothing where there is no termios."""
    try:
        import termios
        import tty

        before = termios.tcgetattr(fd)
    except (ImportError, OSError):
        yield
        return
    except Exception:  # termios.error, for something that is no terminal
        yield
        return
    try:
        # DRAIN and not FLUSH: what was typed ahead stays.
        tty.setcbreak(fd, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


@contextlib.contextmanager
def typed_lines(fd: int) -> Iterator[None]:
    """Whole lines with echo, inside `single_keys`, for a note."""
    try:
        import termios

        before = termios.tcgetattr(fd)
        lines = termios.tcgetattr(fd)
        lines[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(fd, termios.TCSADRAIN, lines)
    except Exception:
        yield
        return
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def read_key(fd: int) -> str:
    """The next key, or an empty text at the end of input. Escape sequences (arrow keys) come as one unknown key."""
    data = os.read(fd, 1)
    if data == b"\x1b":
        data += _rest_of_sequence(fd)
    return data.decode("utf-8", "replace")


def read_line(fd: int) -> str:
    """A line from the terminal, without its end."""
    data = b""
    while (byte := os.read(fd, 1)) not in (b"", b"\n", b"\r"):
        data += byte
    return data.decode("utf-8", "replace")


def write(text: str) -> None:
    """To stderr, with what its encoding lacks spelled out."""
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stderr.flush()


def _rest_of_sequence(fd: int) -> bytes:
    import select

    rest = b""
    while len(rest) < 16 and select.select([fd], [], [], 0.02)[0]:
        rest += os.read(fd, 1)
        # ESC [ ... or ESC O ... ends with a letter or tilde; ESC and one key is that key with Alt.
        if rest[:1] not in (b"[", b"O") or (len(rest) > 1 and 0x40 <= rest[-1] <= 0x7E):
            break
    return rest
