"""The operations that tensors were computed by, as autograd has them, and what these saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from ddpcheck.watch.packed import saved

KEPT_NODES = 20_000
# What operations of a kind save: it takes a while to ask one.
_NAMES: dict[str, tuple[str, ...]] = {}


def nodes_of(tensors: Sequence[Tensor], most: int = KEPT_NODES) -> Iterator[Any]:
    """Yield the operations that tensors come of, each once; of a large graph only the first ones."""
    waiting: list[Any] = [each.grad_fn for each in tensors if each.grad_fn is not None]
    seen = set(waiting)
    for _ in range(most):
        if not waiting:
            return
        node = waiting.pop()
        yield node
        for after, _number in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                waiting.append(after)


def all_saved(node: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that autograd saved of an operation, with their names, unless packed."""
    kind: str = node.name()
    if kind not in _NAMES:
        _NAMES[kind] = tuple(name for name in dir(node) if name.startswith("_saved_"))
    for name in _NAMES[kind]:
        tensor = saved(node, name)
        if tensor is not None:
            yield name, tensor
