"""PyTorch's forward and backward replayed on sizes: each operation allocates, keeps for its backward and frees what the real one does.

A `Tensor` here is a number of elements and their width in bytes; its storage counts itself on the `Tape` while anything refers to it, as
PyTorch's reference counting has it. The rules of each operation (what is saved, which temporaries its backward makes) are those of PyTorch's
derivatives; a test traces the real library with fake tensors and compares the peaks.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Sequence


class Tape:
    """Bytes alive now and at most; the number of operations so far orders the backward."""

    __slots__ = ("autocast", "cached", "casts", "count", "grad", "now", "peak")

    def __init__(self, autocast: bool = True) -> None:
        self.now = self.peak = self.count = 0
        self.autocast = autocast
        self.grad = True
        self.casts: dict[int, Tensor] = {}
        self.cached: list[Tensor] = []  # keys and values that outlive their layer

    def new(self, elements: float, width: int, node: Node | None = None) -> Tensor:
        return Tensor(elements, width, Storage(self, elements * width), node)

    def node(self, parents: Sequence[Node | None], back: Callable) -> Node | None:
        """A step of the backward, or None where no parent wants a gradient."""
        if not self.grad or all(p is None for p in parents):
            return None
        self.count += 1
        return Node(self.count, parents, back)


class Storage:
    __slots__ = ("size", "tape")

    def __init__(self, tape: Tape, size: float) -> None:
        self.tape, self.size = tape, size
        tape.now += size
        if tape.now > tape.peak:
            tape.peak = tape.now

    def __del__(self) -> None:
        self.tape.now -= self.size


class Tensor:
    __slots__ = ("elements", "node", "store", "width")

    def __init__(self, elements: float, width: int, store: Storage, node: Node | None) -> None:
        self.elements, self.width, self.store, self.node = elements, width, store, node

    def view(self, node: Node | None) -> Tensor:
        return Tensor(self.elements, self.width, self.store, node)


class Node:
    __slots__ = ("back", "grad", "order", "parents")

    def __init__(self, order: int, parents: Sequence[Node | None], back: Callable | None) -> None:
        self.order, self.parents, self.back, self.grad = order, parents, back, None

    def __lt__(self, other: Node) -> bool:
        return self.order > other.order


class Weight:
    """A matrix (or vector) of the model, outside the tape; its gradient is counted elsewhere, but what computing it takes is counted here."""

    __slots__ = ("four_bit", "leaf", "rows", "columns", "width")

    def __init__(self, rows: int, columns: int, width: float, trained: bool, four_bit: bool = False) -> None:
        self.rows, self.columns, self.width, self.four_bit = rows, columns, width, four_bit
        self.leaf = Node(0, (), None) if trained else None

    @property
    def elements(self) -> int:
        return self.rows * self.columns


def backward(root: Node, grads: list[Tensor]) -> None:
    """Run the backward from the node `root`; the last operation first, as autograd orders it.

    Args:
        grads: the gradient of the root's output, taken out of the list so that nothing else keeps it.
    """
    pending: dict[int, Tensor] = {id(root): grads.pop()}
    ready, queued = [root], {id(root)}
    while ready:
        node = heapq.heappop(ready)
        grads = node.back(pending.pop(id(node)))
        node.back = None  # what was saved is freed once used
        for parent, found in zip(node.parents, grads, strict=True):
            if parent is None or found is None or parent.back is None:
                continue
            key = id(parent)
            if key in pending:
                _accumulate(pending, key, found)
            else:
                pending[key] = found
            if key not in queued:
                queued.add(key)
                heapq.heappush(ready, parent)
        found = grads = None


def _accumulate(pending: dict[int, Tensor], key: int, more: Tensor) -> None:
    held = pending[key]
    # In place where nobody else refers to the storage: the tensor, this call's argument and getrefcount's own.
    if sys.getrefcount(held.store) > 2:
        pending[key] = held.store.tape.new(held.elements, held.width)
