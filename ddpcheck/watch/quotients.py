"""Means that a loss takes by itself, found in its autograd graph: sums divided by a count.

What autograd keeps of each operation is in torch's tools/autograd/derivatives.yaml, by the names
that are used here with ``_saved_`` before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any
from zlib import crc32

import torch

# Operations on single numbers between a loss and its means; real ones have some tens.
LOOKED_AT_COUNT = 128
# Operations, such as pow(abs(a - b)), between a mean and the choice of what it is over.
CHAIN_COUNT = 8
# In what autograd lets one note of an operation.
KNOWN = "ddpcheck: known"
CHOICES = ("IndexBackward", "MaskedSelectBackward")
SUM, MEAN = 2, 1  # at::Reduction


@dataclass(frozen=True)
class Quotient:
    """One such mean: the operation, which one it is among those of its loss, what it is over.

    ``key`` is the same where ranks compute the same, ``kind`` where what it is over was computed in
    the same way. ``count`` is a number, of the device maybe, or its reciprocal where ``is_factor``;
    ``values`` how many values are summed, 0 if it is not known.
    """

    node: Any
    key: int
    kind: int
    count: Any
    values: int
    is_factor: bool = False


def leave_out(mean: torch.Tensor) -> None:
    """Let what computed this, which is known otherwise, be no quotient, nor what lies behind it."""
    made_by: Any = mean.grad_fn
    if made_by is not None:
        made_by.metadata[KNOWN] = True


def quotients(loss: torch.Tensor) -> Iterator[Quotient]:
    """Yield the means in the graph of a loss that is a single number."""
    ways: list[tuple[Any, int, str]] = [(loss.grad_fn, 0, "")]
    seen: set[Any] = set()
    while ways and len(seen) < LOOKED_AT_COUNT:
        node, output, way = ways.pop()
        if node is None or node in seen or _shape(node, output) != ():
            continue
        seen.add(node)
        if KNOWN in node.metadata:
            continue
        way = f"{way}/{node.name()}"
        quotient = _quotient(node, crc32(way.encode()))
        if quotient is not None:
            yield quotient
        parents = enumerate(node.next_functions)
        ways += [(parent, number, f"{way}.{at}") for at, (parent, number) in parents]


def _quotient(node: Any, key: int) -> Quotient | None:
    name = node.name()
    if name.startswith(("DivBackward", "MulBackward")) and _sums(node):
        count = getattr(node, "_saved_other", None)
        if type(count) is torch.Tensor and count.dim() == 0 and not count.requires_grad:
            own = count.detach().clone()  # the script may go on counting in place
            told = (key, _kind(node), own, _values(node))
            return Quotient(node, *told, is_factor=name.startswith("Mul"))
    if name.startswith("MeanBackward") or getattr(node, "_saved_reduction", None) == MEAN:
        chosen = _chosen(node)
        return Quotient(node, key, _kind(node), chosen, chosen) if chosen else None
    return None


def _kind(node: Any) -> int:
    """Return the same number for the same operations in a row, of which each one is the first."""
    names: list[str] = []
    each = node
    for _ in range(CHAIN_COUNT):
        names.append(each.name())
        each = next((parent for parent, _ in each.next_functions if parent is not None), None)
        if each is None:
            break
    return crc32("/".join(names).encode())


def _sums(node: Any) -> bool:
    """Return whether what is divided is a sum over values, or one of such sums."""
    return any(_is_sum(each) for each in _single(node))


def _values(node: Any) -> int:
    return max((_summed(each) for each in _single(node)), default=0)


def _single(node: Any) -> Iterator[Any]:
    """Yield the next operations on single numbers behind this one."""
    ways = list(node.next_functions)
    for _ in range(CHAIN_COUNT):
        if not ways:
            return
        each, output = ways.pop()
        if each is not None and _shape(each, output) == ():
            yield each
            if not _is_sum(each):
                ways += each.next_functions


def _is_sum(node: Any) -> bool:
    return node.name().startswith("SumBackward") or getattr(node, "_saved_reduction", None) == SUM


def _summed(node: Any) -> int:
    return prod(getattr(node, "_saved_self_sym_sizes", (0,)))


def _chosen(node: Any) -> int:
    """Return how many values a mean is over, if they were chosen by a mask or indices; else 0."""
    ways = list(node.next_functions)
    for _ in range(CHAIN_COUNT):
        if not ways:
            return 0
        each, _output = ways.pop()
        if each is not None and each.name().startswith(CHOICES):
            return _averaged(node)
        ways += each.next_functions if each is not None else ()
    return 0


def _averaged(node: Any) -> int:
    taken = getattr(node, "_saved_self", None)
    return getattr(node, "_saved_self_sym_numel", 0) if taken is None else int(taken.numel())


def _shape(node: Any, output: int) -> tuple[int, ...] | None:
    """Return the shape of an operation's result, None where autograd does not tell."""
    told = getattr(node, "_input_metadata", ())
    return tuple(told[output].shape) if output < len(told) else None
