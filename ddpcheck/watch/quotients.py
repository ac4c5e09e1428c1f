"""Means that a loss takes by itself, found in its autograd graph: sums divided by a count.

What autograd keeps of each operation is in torch's tools/autograd/derivatives.yaml, by the names
that are used here with ``_saved_`` before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple
from zlib import crc32

import torch

# Operations on single numbers between a loss and its means; real ones have some tens.
LOOKED_AT_COUNT = 128
# Operations, such as pow(abs(a - b)), between a mean and the choice of what it is over.
CHAIN_COUNT = 8
# In what autograd lets one note of an operation.
KNOWN = "ddpcheck: known"
CHOICES = ("IndexBackward", "MaskedSelectBackward", "TakeBackward", "IndexSelectBackward")
SUMS = ("SumBackward", "DotBackward")
SUM, MEAN = 2, 1  # at::Reduction


class Count(NamedTuple):
    """What a sum is divided by, maybe on the device; its reciprocal where ``is_factor``."""

    number: Any
    is_factor: bool = False
    # Whether the values were divided before they were summed.
    is_within: bool = False


@dataclass(frozen=True)
class Quotient:
    """One such mean: the operation that sums, which one it is among those of its loss, its count.

    ``key`` is the same where ranks compute the same, ``kind`` where what is summed was computed in
    the same way. ``values`` are how many are summed, 0 if it is not known. A ``count`` of None is
    that of ``values``: the operation takes the mean.
    """

    node: Any
    key: int
    kind: int
    count: Count | None
    values: int


class Way(NamedTuple):
    """A way from the loss to an operation: what it is divided by on it, that nearest to it."""

    node: Any
    output: int
    names: str = ""
    divisor: Count | None = None
    factor: Count | None = None


def leave_out(mean: torch.Tensor) -> None:
    """Let what computed this, which is known otherwise, be no quotient, nor what lies behind it."""
    made_by: Any = mean.grad_fn
    if made_by is not None:
        made_by.metadata[KNOWN] = True


def quotients(loss: torch.Tensor) -> Iterator[Quotient]:
    """Yield the means in the graph of a loss that is a single number."""
    ways = [Way(loss.grad_fn, 0)]
    seen: set[Any] = set()
    while ways and len(seen) < LOOKED_AT_COUNT:
        way = ways.pop()
        node = way.node
        if node is None or node in seen or _shape(node, way.output) != ():
            continue
        seen.add(node)
        if KNOWN in node.metadata:
            continue
        names = f"{way.names}/{node.name()}"
        quotient = _quotient(way, crc32(names.encode()))
        if quotient is not None:
            yield quotient
        elif not _is_sum(node):
            ways += _further(way, names)


def _further(way: Way, names: str) -> Iterator[Way]:
    count = _count(way.node, ())
    divisor, factor = way.divisor, way.factor
    if count is not None:
        divisor, factor = (divisor, count) if count.is_factor else (count, factor)
    for at, (parent, output) in enumerate(way.node.next_functions):
        yield Way(parent, output, f"{names}.{at}", divisor, factor)


def _quotient(way: Way, key: int) -> Quotient | None:
    node = way.node
    if _is_sum(node):
        count = way.divisor or _count_within(node) or way.factor
        told = prod(getattr(node, "_saved_self_sym_sizes", (0,)))
        return Quotient(node, key, _kind(node), count, told) if count is not None else None
    is_mean = node.name().startswith("MeanBackward")
    if is_mean or getattr(node, "_saved_reduction", None) == MEAN:
        chosen = _chosen(node)
        return Quotient(node, key, _kind(node), None, chosen) if chosen else None
    return None


def _count(node: Any, shape: tuple[int, ...] | None) -> Count | None:
    """Return the single number that an operation divides by, or multiplies with."""
    name = node.name()
    if not name.startswith(("DivBackward", "MulBackward")):
        return None
    number: Any = getattr(node, "_saved_other", None)
    if type(number) is not torch.Tensor or number.dim() or number.requires_grad:
        return None
    if shape is not None and _shape(node, 0) != shape:
        return None
    # The script may go on counting in place.
    return Count(number.detach().clone(), name.startswith("Mul"), shape is None)


def _count_within(node: Any) -> Count | None:
    before = next((parent for parent, _ in node.next_functions if parent is not None), None)
    count = _count(before, None) if before is not None else None
    return count if count is not None and not count.is_factor else None


def _kind(node: Any) -> int:
    """Return the same number for the same operations in a row, of which each one is the first."""
    names: list[str] = []
    each = node
    while each is not None and len(names) < CHAIN_COUNT:
        names.append(each.name())
        each = next((parent for parent, _ in each.next_functions if parent is not None), None)
    return crc32("/".join(names).encode())


def _is_sum(node: Any) -> bool:
    return node.name().startswith(SUMS) or getattr(node, "_saved_reduction", None) == SUM


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
