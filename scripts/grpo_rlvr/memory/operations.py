"""The operations of a language model's layer on sizes: what each allocates, keeps for its backward, and makes in it.

Each returns its result. The rules are those of PyTorch's derivatives and of the code in transformers and PEFT that calls them.
"""

from __future__ import annotations

from grpo_rlvr.memory.replay import Node, Tape, Tensor, Weight


def cast(tape: Tape, x: Tensor, width: int) -> Tensor:
    if x.width == width:
        return x
    back_width = x.width
    node = tape.node((x.node,), lambda g: (tape.new(g.elements, back_width),))
    return tape.new(x.elements, width, node)


def add(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    width = max(a.width, b.width)
    node = tape.node((a.node, b.node), _add_back(tape, a.width, b.width, width))
    return tape.new(a.elements, width, node)


def _add_back(tape, a, b, width):
    def back(g):
        return tuple(g if w == width else tape.new(g.elements, w) for w in (a, b))

    return back


def scale(tape: Tape, x: Tensor) -> Tensor:
    """Times a constant or a tensor that wants no gradient."""
    node = tape.node((x.node,), lambda g: (tape.new(g.elements, g.width),))
    return tape.new(x.elements, x.width, node)


def unary(tape: Tape, x: Tensor) -> Tensor:
    """An activation or gate function, which saves its input (or its output, as much)."""
    saved = x if tape.grad and x.node else None
    node = tape.node((x.node,), lambda g, saved=saved: (tape.new(g.elements, g.width),))
    return tape.new(x.elements, x.width, node)


def multiply(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    keep = (a if b.node else None, b if a.node else None) if tape.grad else None
    wanted = (a.node is not None, b.node is not None)
    widths = (a.width, b.width)

    def back(g, keep=keep):
        full = [tape.new(g.elements, g.width) if w else None for w in wanted]
        return tuple(x and (x if x.width == w else tape.new(x.elements, w)) for x, w in zip(full, widths, strict=True))

    return tape.new(a.elements, max(widths), tape.node((a.node, b.node), back))


def norm(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Hugging Face's RMS norm: in float32, then the width of `x`, then times the weight."""
    h = cast(tape, x, 4)
    square = tape.new(h.elements, 4, tape.node((h.node,), _pow_back(tape, h)))
    variance = tape.new(1, 4, tape.node((square.node,), lambda g, n=h.elements: (tape.new(n, 4),)))
    del square
    normal = tape.new(h.elements, 4, tape.node((h.node, variance.node), _norm_back(tape, h)))
    del h
    normal = cast(tape, normal, x.width)
    width = max(x.width, int(weight.width))
    kept = normal if weight.leaf else None

    def back(g, kept=kept, trained=weight.leaf is not None, width=normal.width):
        grad = _beside(tape, g, trained)
        return (grad if grad.width == width else tape.new(grad.elements, width),)

    return tape.new(normal.elements, width, tape.node((normal.node or weight.leaf,), back))


def _beside(tape: Tape, g: Tensor, trained: bool) -> Tensor:
    """The gradient of the input, made while the weight's, of the same size before it is summed, is there."""
    of_weight = tape.new(g.elements, g.width) if trained else None
    grad = tape.new(g.elements, g.width)
    del of_weight
    return grad


def _pow_back(tape, h):
    def back(g, h=h):
        power = tape.new(h.elements, 4)
        twice = tape.new(power.elements, 4)
        return (tape.new(twice.elements, 4),)

    return back


def _norm_back(tape, h):
    def back(g, h=h):
        to_h = tape.new(h.elements, 4)
        to_variance = tape.new(h.elements, 4)
        return to_h, tape.new(1, 4) if to_variance else None

    return back


def linear(tape: Tape, x: Tensor, w: Weight) -> Tensor:
    """A matrix product as autocast runs it: bf16 inside where it is on, the cast of a trained float32 weight kept until autocast ends."""
    outputs = x.elements / w.columns * w.rows
    if w.four_bit:
        return _four_bit(tape, x, w, outputs)
    width = 2 if tape.autocast else x.width
    x = cast(tape, x, width)
    dense, parent = _weight(tape, w, width)
    kept = (x if w.leaf else None, dense if x.node else None) if tape.grad else None

    def back(g, kept=kept, elements=x.elements, wanted=x.node is not None):
        to_x = tape.new(elements, width) if wanted else None
        to_w = tape.new(w.elements, width) if w.leaf else None
        return to_x, to_w

    node = tape.node((x.node, parent), back)
    # The gradient of a weight that was not cast joins the one already there and is freed: its node has no backward.
    return tape.new(outputs, width, node)


def _weight(tape: Tape, w: Weight, width: int) -> tuple[Tensor | None, Node | None]:
    if w.width == width:
        return None, w.leaf
    if id(w) in tape.casts:
        return tape.casts[id(w)], tape.casts[id(w)].node
    node = tape.node((w.leaf,), lambda g: (tape.new(g.elements, int(w.width)),))
    dense = tape.new(w.elements, width, node)
    if w.leaf is not None:
        tape.casts[id(w)] = dense
    return dense, node


def _four_bit(tape: Tape, x: Tensor, w: Weight, outputs: float) -> Tensor:
    width = x.width
    x = cast(tape, x, 2)

    def back(g, elements=x.elements):
        dense = tape.new(w.elements, 2)
        return (tape.new(elements, 2) if dense else None,)

    dense = tape.new(w.elements, 2)
    out = tape.new(outputs, 2, tape.node((x.node,), back))
    del dense
    return cast(tape, out, width)


def lora(tape: Tape, x: Tensor, w: Weight, a: Weight, b: Weight) -> Tensor:
    """PEFT's linear layer with an adapter: the base's result plus the adapter's, scaled.

    PEFT casts what goes in to the adapter's type (`_cast_input_dtype`; on a quantised base only where there is no autocast). Under autocast the
    adapter's products are two bytes wide all the same; without it they and the sum are as wide as the adapter.
    """
    result = linear(tape, x, w)
    width = result.width
    if not (w.four_bit and tape.autocast):
        x = cast(tape, x, int(a.width))
    delta = linear(tape, linear(tape, x, a), b)
    delta = scale(tape, delta)
    if w.four_bit and not tape.autocast:
        delta = cast(tape, delta, width)
    result = add(tape, result, delta)
    del delta
    return cast(tape, result, width)


def grouped(tape: Tape, x: Tensor, w: Weight, experts: int, adapted: bool = False) -> Tensor:
    """One product with each token's own expert's matrix. Autocast does not reach it.

    The gradient of a trained matrix is that of all experts at once. With adapters, PEFT folds them into a copy of all experts' matrices.
    """
    width = int(w.width)
    x = cast(tape, x, width)
    folded, parent = None, w.leaf
    if adapted:
        parent = tape.node((Node(0, (), None),), lambda g: (None,))
        folded = tape.new(experts * w.elements, width, parent)
    wanted = parent is not None
    kept = (x if wanted else None, folded if x.node else None) if tape.grad else None

    def back(g, kept=kept, elements=x.elements):
        to_x = tape.new(elements, width)
        return to_x, tape.new(experts * w.elements, width) if wanted else None

    return tape.new(x.elements / w.columns * w.rows, width, tape.node((x.node, parent), back))


def halves(tape: Tape, x: Tensor) -> tuple[Tensor, ...]:
    """Two views of one tensor."""
    return parts(tape, x, 1, 1)


def parts(tape: Tape, x: Tensor, *sizes: int) -> tuple[Tensor, ...]:
    """Views of one tensor in these proportions; their gradients are joined in a new one."""
    node = tape.node((x.node,), lambda g, n=x.elements: (tape.new(n, g.width),))
    return tuple(Tensor(x.elements * size / sum(sizes), x.width, x.store, node) for size in sizes)


def weigh(tape: Tape, x: Tensor, weights: Tensor) -> Tensor:
    """Each row times its weight, a number that wants a gradient too: `x` is kept for it."""
    kept = x.view(None) if tape.grad and weights.node else None

    def back(g, kept=kept):
        to_x = tape.new(g.elements, g.width)
        to_weights = tape.new(g.elements, g.width) if kept else None
        return to_x, to_weights

    return tape.new(x.elements, x.width, tape.node((x.node, weights.node), back))


def reorder(tape: Tape, x: Tensor, elements: float) -> Tensor:
    """Gathered, masked or permuted: a new tensor, and another for the gradient."""
    node = tape.node((x.node,), lambda g, n=x.elements: (tape.new(n, g.width),))
    return tape.new(elements, x.width, node)


def total(tape: Tape, x: Tensor, parts: int) -> Tensor:
    """The sum over `parts`; the gradient is a view that repeats."""
    node = tape.node((x.node,), lambda g, n=x.elements: (Tensor(n, g.width, g.store, None),))
    return tape.new(x.elements / parts, x.width, node)


def rotate(tape: Tape, x: Tensor, width: int) -> Tensor:
    """Rotary position embedding; sine and cosine have the width of the residual stream."""
    wide = max(x.width, width)
    first = tape.new(x.elements, wide, tape.node((x.node,), _scaled_back(tape, x.width)))
    part = tape.node((x.node,), lambda g: (tape.new(g.elements, g.width),))  # of each half: a tensor of full size, zero elsewhere
    half = tape.new(x.elements / 2, x.width, tape.node((x.node,), _negated_back(tape)))
    turned = tape.new(x.elements, x.width, tape.node((half.node, part), lambda g: (g, g)))
    del half
    second = tape.new(x.elements, wide, tape.node((turned.node,), _scaled_back(tape, x.width)))
    del turned
    return add(tape, first, second)


def _scaled_back(tape, width):
    def back(g):
        grad = tape.new(g.elements, g.width)
        return (grad if grad.width == width else tape.new(grad.elements, width),)

    return back


def _negated_back(tape):
    def back(g):
        half = tape.new(g.elements / 2, g.width)
        return (tape.new(g.elements, g.width) if half else None,)

    return back


def repeat(tape: Tape, x: Tensor, elements: float) -> Tensor:
    """Key or value heads repeated for all query heads."""
    if elements == x.elements:
        return x
    node = tape.node((x.node,), lambda g, n=x.elements: (tape.new(n, g.width),))
    return tape.new(elements, x.width, node)


def attend(tape: Tape, q: Tensor, k: Tensor, v: Tensor, mask_bytes: float, outputs: float) -> Tensor:
    """Scaled dot-product attention by a flash or memory-efficient kernel: no scores; saves its inputs, its output and a mask in numbers."""
    width = 2 if tape.autocast else q.width
    q, k, v = (cast(tape, t, width) for t in (q, k, v))
    mask = tape.new(mask_bytes, 1) if mask_bytes else None
    out = tape.new(outputs, width)
    if tape.grad and q.node:
        kept = (q, k, v, out.view(None), mask)

        def back(g, kept=kept):
            return tuple(tape.new(t.elements, width) for t in kept[:3])

        out.node = tape.node((q.node, k.node, v.node), back)
    return out


def attend_eager(tape: Tape, q: Tensor, k: Tensor, v: Tensor, scores: float, masked: bool) -> Tensor:
    """Attention with the scores written out, softmax in float32, as `attn_implementation: eager` does it."""
    width = 2 if tape.autocast else q.width
    kept = (q, k) if tape.grad and q.node else None
    s = tape.new(scores, width, tape.node((q.node, k.node), lambda g, kept=kept: tuple(tape.new(t.elements, width) for t in kept)))
    s = scale(tape, s)
    if masked:
        s = tape.new(scores, s.width, tape.node((s.node,), lambda g: (g,)))
    probabilities = cast(tape, _softmax(tape, s, width), width)
    del s
    kept = (probabilities, v) if tape.grad and v.node else None
    node = tape.node((probabilities.node, v.node), lambda g, kept=kept: tuple(tape.new(t.elements, width) for t in kept))
    return tape.new(q.elements, width, node)


def _softmax(tape: Tape, s: Tensor, width: int) -> Tensor:
    """In float32; saves its result."""
    out = tape.new(s.elements, 4)
    saved = out.view(None) if s.node else None

    def back(g, saved=saved):
        # CUDA's kernel wants gradient x result first; one more tensor of the size was there in all measured runs but two.
        product, more = tape.new(g.elements, g.width), tape.new(g.elements, width)
        return (tape.new(product.elements, width) if more else None,)

    out.node = tape.node((s.node,), back)
    return out
