"""The last norm, the language-model head and the loss: what they take for a micro-batch, by the version of TRL.

`chunked` (TRL 1.15 and later): tiles of 4096 tokens x 32768 vocabulary entries, so no tensor of tokens x vocabulary exists; where the head is
trained its gradient is summed in float32. `logits` (before): four float32 tensors of scored tokens x vocabulary at the peak, traced on TRL 1.12
and 16.19 bytes a logit in Liger's published benchmark. `liger`: tiles too. `sft`: cross-entropy over all tokens, as measured runs of
supervised fine-tuning have it. DeepSpeed computes in bf16 without accelerate's float32 outputs: `logits_bf16`, half of `logits` (derived).
"""

from __future__ import annotations

from functools import lru_cache

from grpo_rlvr.memory import operations as op
from grpo_rlvr.memory.layer import LayerBytes, Mode
from grpo_rlvr.memory.replay import Node, Tape, Weight, backward

TILE_TOKENS, TILE_ENTRIES = 4096, 32768
HEADS = ("chunked", "logits", "logits_bf16", "liger", "sft")


@lru_cache(maxsize=4096)
def head_bytes(kind: str, hidden: int, vocab: int, mode: Mode, tokens: int, scored: int) -> LayerBytes:
    """What head and loss take beyond the last layer's output.

    Args:
        tokens: in the micro-batch, prompts and padding too.
        scored: completion tokens of it.
    """
    stream, trained = mode.weight_width, mode.trained
    tape = Tape(mode.autocast)
    x = tape.new(tokens * hidden, stream)
    base = tape.now
    x.node = tape.node((Node(0, (), None),), lambda g: (g,))
    h = op.norm(tape, x, Weight(1, hidden, stream, trained))
    del x
    if kind == "sft":
        return _sft(tape, base, h, vocab, hidden, mode)
    # hidden_states[mask] gathers a copy; its gradient is spread over zeros of the full size
    picked = tape.new(scored * hidden, h.width, tape.node((h.node,), lambda g, n=h.elements: (tape.new(n, g.width),)))
    del h
    work = {"chunked": _chunked, "logits": _logits, "logits_bf16": _logits_bf16, "liger": _liger}[kind]
    forward, kept, during, after = work(hidden, vocab, scored, mode)
    tape.new(forward, 1)
    saved = tape.new(kept, 1)
    before = tape.now - base
    grads = [tape.new(scored * hidden, stream)]
    root = picked.node
    peak = tape.now + during
    del picked, saved
    held = tape.new(after, 1)
    backward(root, grads)
    del held
    return LayerBytes(max(forward + kept, tape.peak - base) if not during else before + forward, before, max(peak, tape.peak) - base)


def _chunked(hidden: int, vocab: int, scored: int, mode: Mode) -> tuple[float, float, float, float]:
    """(forward work, saved, backward work, still there while the last norm goes back)."""
    tile = min(scored, TILE_TOKENS) * TILE_ENTRIES * (2 if mode.autocast else mode.weight_width)
    narrow = mode.weight_width > 2 and mode.autocast
    cast = min(TILE_ENTRIES, vocab) * hidden * 2 if narrow else 0
    # In the backward the next slice of the head is cast before the last one is let go.
    again = cast if scored > TILE_TOKENS else max(0, min(TILE_ENTRIES, vocab - TILE_ENTRIES)) * hidden * 2 if narrow else 0
    rows = min(scored, TILE_TOKENS) * hidden * 2 if narrow else 0
    grad_hidden = scored * hidden * 4
    # The float32 sum of the head's gradient, and its copy in the weight's width.
    grad_weight = vocab * hidden * (4 + (mode.weight_width if mode.weight_width < 4 else 0)) if mode.trained else 0
    # The narrowed gradient of the hidden states is made while the float32 ones are still there.
    extra = grad_hidden if mode.weight_width < 4 else 0
    working = max(cast + again + rows, vocab * hidden * mode.weight_width if mode.trained and mode.weight_width < 4 else 0)
    full = vocab * hidden * 4 if mode.trained else 0
    return tile + cast + rows + 40 * scored, 16 * scored, tile + full + working + extra, grad_weight - full if mode.trained else 0


def _logits(hidden: int, vocab: int, scored: int, mode: Mode) -> tuple[float, float, float, float]:
    grad_weight = vocab * hidden * 2 if mode.trained else 0
    cast = vocab * hidden * 2 if mode.weight_width > 2 and mode.autocast else 0
    return 4 * scored * vocab + cast, 4 * scored * vocab, 12 * scored * vocab + cast, grad_weight


def _logits_bf16(hidden: int, vocab: int, scored: int, mode: Mode) -> tuple[float, float, float, float]:
    forward, kept, during, after = _logits(hidden, vocab, scored, mode)
    return forward / 2, kept / 2, during / 2, after


def _liger(hidden: int, vocab: int, scored: int, mode: Mode) -> tuple[float, float, float, float]:
    tile = min(scored, 1024) * vocab * 10
    grad_weight = vocab * hidden * mode.weight_width if mode.trained else 0
    return tile, grad_weight + scored * hidden * 2, tile + grad_weight, 0


def _sft(tape: Tape, base: float, h, vocab: int, hidden: int, mode: Mode) -> LayerBytes:
    logits = op.linear(tape, h, Weight(vocab, hidden, mode.weight_width, mode.trained))
    del h
    tokens = logits.elements
    wide = op.cast(tape, logits, 4)
    log_softmax = tape.new(tokens, 4)
    saved = log_softmax.view(None)
    log_softmax.node = tape.node((wide.node,), lambda g, saved=saved: (tape.new(tokens, 4),))
    del saved
    del wide
    forward = tape.peak - base
    kept = tape.now - base
    grads = [tape.new(tokens, 4)]
    root = log_softmax.node
    del log_softmax
    backward(root, grads)
    return LayerBytes(forward, kept, tape.peak - base)
