"""What the model wrote: the text of a completion, what follows its reasoning, and its final answer.

Every function takes any input, never raises on model output, and runs in time linear in the text: tags and boxes are
found with `str.find` or a pattern that cannot backtrack.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

REASONING_TAGS = ("think", "thinking", "thought", "reasoning")
_REASONING_TAG = re.compile(f"<(/?)({'|'.join(REASONING_TAGS)})>")
_REASONING_OPEN, _REASONING_CLOSE = tuple(f"<{t}>" for t in REASONING_TAGS), tuple(f"</{t}>" for t in REASONING_TAGS)
ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"
_WHITE = re.compile(r"\s*")
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")

# End-of-turn and padding tokens of the common chat templates; they are the tokenizer's, not the model's answer.
SPECIAL_TOKENS = (
    "<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|begin_of_text|>", "<|end|>", "<|return|>",
    "<|eot|>", "<|user|>", "<|END_OF_TURN_TOKEN|>", "<end_of_turn>", "<end_of_utterance>", "<turn|>", "<eos>", "<bos>", "<pad>", "<s>", "</s>",
    "[EOS]", "[PAD]", "<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>",
)  # fmt: skip


def completion_text(completion: Any) -> str:
    """The text to score: a string as it is, of a list of messages the last assistant message.

    Tool results and user turns never count. Content parts are joined; `None` and anything unknown is empty text.
    """
    if isinstance(completion, str):
        return completion
    if isinstance(completion, dict):
        return content_text(completion.get("content"))
    if isinstance(completion, (list, tuple)):
        for message in reversed(completion):
            if isinstance(message, dict) and message.get("role", "assistant") == "assistant":
                return content_text(message.get("content"))
    return ""


def assistant_text(completion: Any) -> str:
    """All that the model wrote in a completion of several turns, reasoning included."""
    return "\n".join(content_text(turn.get("content")) for turn in assistant_turns(completion))


def assistant_turns(completion: Any) -> list[dict]:
    """The assistant messages of a completion; text is one of them."""
    if isinstance(completion, str):
        return [{"content": completion}]
    turns = [completion] if isinstance(completion, dict) else completion if isinstance(completion, (list, tuple)) else []
    return [t for t in turns if isinstance(t, dict) and t.get("role", "assistant") == "assistant"]


def content_text(content: Any) -> str:
    """The text of a message's content: parts joined, what is no text left out."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, (list, tuple)):
        return ""
    parts = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) and part.get("type", "text") == "text" else part
        if isinstance(text, str):
            parts.append(text)
    return "".join(parts)


def prompt_text(prompt: Any) -> str:
    """What a prompt says, whoever says it: the text, or the contents of all messages."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(content_text(m.get("content")) for m in prompt if isinstance(m, dict)) if isinstance(prompt, (list, tuple)) else ""


def strip_special_tokens(text: str) -> str:
    """`text` without the special tokens and white space at its two ends; inside, nothing is touched."""
    start, end = _special_bounds(text)
    return text[start:end]


def _special_bounds(text: str) -> tuple[int, int]:
    start, end = 0, len(text)
    while True:
        while start < end and text[end - 1].isspace():
            end -= 1
        while start < end and text[start].isspace():
            start += 1
        # One call asks for all tokens; which one it was matters only where there is one.
        if text.endswith(SPECIAL_TOKENS, start, end):
            token = next(token for token in SPECIAL_TOKENS if text.endswith(token, start, end))
            while text.endswith(token, start, end):  # padding is a long row of one
                end -= len(token)
        elif text.startswith(SPECIAL_TOKENS, start, end):
            token = next(token for token in SPECIAL_TOKENS if text.startswith(token, start, end))
            while text.startswith(token, start, end):
                start += len(token)
        else:
            return start, end


def after_reasoning(text: str) -> str:
    """What follows the reasoning part; empty where the reasoning was never ended.

    Everything up to the last closing tag is reasoning, also without an opening tag (the chat template may have written
    it). An opening tag after that starts reasoning that never ended: it and what follows are left out.
    """
    start, end = after_reasoning_span(text)
    return text[start:end]


def after_reasoning_span(text: str) -> tuple[int, int]:
    """Span in `text` of what `after_reasoning` returns."""
    start, end = 0, len(text)
    for close in _REASONING_CLOSE:
        # Not before what was found already: only the last end counts.
        at = text.rfind(close, start)
        if at >= 0:
            start = at + len(close)
    for opened in _REASONING_OPEN:
        at = text.find(opened, start, end)
        if at >= 0:
            end = at
    return start, end


def outside_reasoning(text: str) -> str:
    """All that was said or done, where everything of it counts and not only the last word: the text without its reasoning parts.

    `after_reasoning` would let a second reasoning part hide what came before it. Reasoning is each part from an opening tag to the
    closing one of the same name or, unfinished, to the end, and what comes before a closing tag that is the first of all tags (the
    chat template may have written the opening one). The pieces are joined by line ends.
    """
    pieces, at, inside = [], 0, None
    for count, tag in enumerate(_REASONING_TAG.finditer(text)):
        closes, name = tag[1] == "/", tag[2]
        if inside is None and not closes:
            pieces.append(text[at : tag.start()])
            inside = name
        elif closes and (inside == name or count == 0):
            inside, at = None, tag.end()
    return "\n".join([*pieces, text[at:]] if inside is None else pieces)


def behind_reasoning(text: str) -> str:
    """What follows the reasoning that the text begins with, tags and all: for an answer that nothing may follow. "" where it never ends.

    Unlike `after_reasoning` it takes a tag behind that for the answer's own, such as one within a JSON string.
    """
    first, at = _REASONING_TAG.search(text), 0
    if first is not None and first[1]:  # the chat template has written the opening one
        at = first.end()
    while (opened := _REASONING_TAG.match(text, _WHITE.match(text, at).end())) and not opened[1]:
        close = f"</{opened[2]}>"
        end = text.find(close, opened.end())
        if end < 0:
            return ""
        at = end + len(close)
    return text[at:]


def tag_span(text: str, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
    """Span of the content of the last complete `<answer>` block in `text[start:end]`."""
    close = text.rfind(ANSWER_CLOSE, start, end)
    if close < 0:
        return None
    opened = text.rfind(ANSWER_OPEN, start, close)
    return (opened + len(ANSWER_OPEN), close) if opened >= 0 else None


def has_box(text: str, start: int = 0, end: int | None = None) -> bool:
    """Whether a box is begun at all, finished or not."""
    return _BOX.search(text, start, len(text) if end is None else end) is not None


def box_span(text: str, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
    r"""Span of the content of the last `\boxed{...}` or `\fbox{...}`; None if there is none or the last one is unfinished."""
    end = len(text) if end is None else end
    last = deque(_BOX.finditer(text, start, end), maxlen=1)
    if not last:
        return None
    inside = last[0].end()
    while inside < end and text[inside].isspace():
        inside += 1
    if inside >= end or text[inside] != "{":
        return None
    close = matching_brace(text, inside, end)
    return None if close is None else (inside + 1, close)


def matching_brace(text: str, opening: int, end: int | None = None) -> int | None:
    r"""Index of the `}` that closes the `{` at `opening`; `\{` and `\}` are text."""
    end = len(text) if end is None else end
    depth = 0
    i = opening
    while i < end:
        c = text[i]
        if c == "\\":
            i += 1
        elif c == "{":
            depth += 1
        elif c == "}":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return None


def answer_span(text: str) -> tuple[int, int] | None:
    """Span in `text` of the final answer's content, after the reasoning; None where no final answer was given.

    The last complete `<answer>` wins (a box inside it is unwrapped), else the last box, else what follows the last
    `####` on its line. A last box that was never closed is no answer, even if an earlier one was closed.
    """
    start, end = after_reasoning_span(text)
    span = tag_span(text, start, end)
    if span is not None:
        if not has_box(text, *span):
            return _trimmed(text, *span)
        inner = box_span(text, *span)
        return None if inner is None else _trimmed(text, *inner)
    if has_box(text, start, end):
        span = box_span(text, start, end)
        return None if span is None else _trimmed(text, *span)
    at = text.rfind("####", start, end)
    if at < 0:
        return None
    newline = text.find("\n", at, end)
    return _trimmed(text, at + 4, end if newline < 0 else newline)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece_start, piece_end = _special_bounds(text[start:end])
    return start + piece_start, start + piece_end


def final_answer(text: str) -> str | None:
    """The content of the final answer (see `answer_span`), or None."""
    span = answer_span(text)
    return None if span is None else text[span[0] : span[1]]
