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

from ddpcheck.watch.packed import saved

# Operations on single numbers between a loss and its means; real ones have some tens.
LOOKED_AT_COUNT = 128
# Operations, such as pow(abs(a - b)), between a mean and the choice of what it is over.
CHAIN_COUNT = 8
# In what autograd lets one note of an operation.
KNOWN = "ddpcheck: known"
CHOICES = ("IndexBackward", "MaskedSelectBackward", "TakeBackward", "IndexSelectBackward")
SUMS = ("SumBackward", "NansumBackward", "DotBackward", "VdotBackward")
# einsum sums by a product of a row and a column, which is a sum where it makes one number.
PRODUCTS = ("MmBackward", "BmmBackward")
# What joins the pieces that a script chose in a loop.
JOINTS = ("CatBackward", "StackBackward")
# Between a sum and the weights of what is summed; all of them leave each value what it is.
PASSES = ("SumBackward", "ViewBackward", "PermuteBackward", "NegBackward", "MulBackward")
# What a product saves of its factors.
FACTORS = ("_saved_other", "_saved_self", "_saved_tensor", "_saved_mat2")
# Of weights that were divided by their number before they were used; in bf16 too.
ONE_RELATIVE = 1e-2
ALIKE_RELATIVE = 1e-4
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
    that of ``values``: the operation takes the mean. ``divided`` is where that is done.
    """

    node: Any
    key: int
    kind: int
    count: Count | None
    values: int
    divided: Any


class Way(NamedTuple):
    """A way from the loss to an operation: what it is divided by on it, nearest to it, and where."""

    node: Any
    output: int
    names: str = ""
    divisor: Count | None = None
    factor: Count | None = None
    divided: Any = None


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
        if node is None or node in seen or not _is_one(node, way.output):
            continue
        seen.add(node)
        if KNOWN in node.metadata:
            continue
        names = f"{way.names}/{node.name()}"
        found = tuple(_quotients(way, names))
        yield from found
        if not found and not _is_sum(node):
            ways += _further(way, names)


def _further(way: Way, names: str) -> Iterator[Way]:
    count = _count(way.node)
    divisor, factor, divided = way.divisor, way.factor, way.divided
    if count is not None:
        divisor, factor = (divisor, count) if count.is_factor else (count, factor)
        divided = divided if count.is_factor and divisor is not None else way.node
    for at, (parent, output) in enumerate(way.node.next_functions):
        yield Way(parent, output, f"{names}.{at}", divisor, factor, divided)


def _quotients(way: Way, names: str) -> Iterator[Quotient]:
    """Yield what an operation is: a sum may be a mean by what it is divided by, or by its weights."""
    node, kind = way.node, _kind(way.node)
    if not _is_sum(node):
        chosen = _chosen(node) if _is_mean(node) else 0
        if chosen:
            yield Quotient(node, crc32(names.encode()), kind, None, chosen, node)
        elif way.divisor is not None and _is_as_many(node, way.divisor):
            yield Quotient(node, crc32(names.encode()), kind, way.divisor, 0, way.divided)
        return
    divisor = way.divisor or _count_within(node)
    told = prod(getattr(node, "_saved_self_sym_sizes", (0,)))
    count = divisor or way.factor
    if count is not None:
        yield Quotient(node, crc32(names.encode()), kind, count, told, way.divided or node)
    weights = _weights(node) if divisor is None else None
    if weights is not None:
        key = crc32(f"{names} weighted".encode())
        yield Quotient(node, key, kind, Count(_number_of(weights), is_within=True), told, node)


def _is_as_many(node: Any, divisor: Count) -> bool:
    """Return whether it adds one number after the other, as many as the divisor says: a list's."""
    if not node.name().startswith("AddBackward") or divisor.number.device.type != "cpu":
        return False
    waiting, terms = [node], 0
    while waiting and terms <= LOOKED_AT_COUNT:
        each = waiting.pop()
        is_sum = each.name().startswith("AddBackward")
        terms += not is_sum
        waiting += [parent for parent, _ in each.next_functions if parent] if is_sum else []
    return terms > 1 and terms == float(divisor.number)


def _count(node: Any, *, is_within: bool = False) -> Count | None:
    """Return the single number that an operation divides by, or multiplies with."""
    name = node.name()
    if not name.startswith(("DivBackward", "MulBackward")):
        return None
    number = saved(node, "_saved_other")
    if number is None or number.dim() or number.requires_grad:
        return None
    # The script may go on counting in place.
    return Count(number.detach().clone(), name.startswith("Mul"), is_within)


def _count_within(node: Any) -> Count | None:
    before = next((parent for parent, _ in node.next_functions if parent is not None), None)
    count = _count(before, is_within=True) if before is not None else None
    return count if count is not None and not count.is_factor else None


def _weights(node: Any) -> torch.Tensor | None:
    """Return what the values of a sum were multiplied with before it, if that has no gradient."""
    each = node
    for _ in range(CHAIN_COUNT):
        for name in FACTORS if _multiplies(each) else ():
            factor = saved(each, name)
            if factor is not None and _may_weigh(factor):
                return factor.detach()
        each = next((parent for parent, _ in each.next_functions if parent is not None), None)
        if each is None or not each.name().startswith(PASSES):
            return None
    return None


def _multiplies(node: Any) -> bool:
    name: str = node.name()
    return name.startswith(("MulBackward", "DotBackward", "VdotBackward", *PRODUCTS))


def _may_weigh(factor: torch.Tensor) -> bool:
    # One sample's own weights are of its own mean, as is right.
    is_one_sample = factor.dim() > 1 and factor.shape[0] == 1
    is_plain = factor.is_floating_point() and not factor.requires_grad
    return is_plain and factor.numel() > 1 and not is_one_sample


@torch.no_grad()
def _number_of(weights: torch.Tensor) -> torch.Tensor:
    """Return how many weights there are but those of 0, if they are all alike and make 1; else 0."""
    number, total = torch.count_nonzero(weights), weights.sum(dtype=torch.float32)
    are_alike = (weights.amax().float() * number - total).abs() <= ALIKE_RELATIVE
    return number * (are_alike & ((total - 1.0).abs() <= ONE_RELATIVE))


def _kind(node: Any) -> int:
    """Return the same number for the same operations in a row, of which each one is the first."""
    names: list[str] = []
    each = node
    while each is not None and len(names) < CHAIN_COUNT:
        names.append(each.name())
        each = next((parent for parent, _ in each.next_functions if parent is not None), None)
    return crc32("/".join(names).encode())


def _is_sum(node: Any) -> bool:
    name = node.name()
    if name.startswith(SUMS) or getattr(node, "_saved_reduction", None) == SUM:
        return True
    return name.startswith(PRODUCTS) and _is_one(node, 0)


def _is_mean(node: Any) -> bool:
    is_mean: bool = node.name().startswith("MeanBackward")
    return is_mean or getattr(node, "_saved_reduction", None) == MEAN


def _chosen(node: Any) -> int:
    """Return how many values a mean is over, if they were chosen by a mask or indices; else 0.

    Or if they were joined of pieces, whose number or lengths the script chose.
    """
    many = _averaged(node)
    ways = list(node.next_functions)
    for _ in range(CHAIN_COUNT):
        if not ways:
            return 0
        each, output = ways.pop()
        if each is not None and (each.name().startswith(CHOICES) or _joins(each, output, many)):
            return many
        ways += each.next_functions if each is not None else ()
    return 0


def _joins(node: Any, output: int, many: int) -> bool:
    """Return whether it joins pieces of different lengths, or single numbers, to so many values."""
    if not node.name().startswith(JOINTS) or prod(_shape(node, output) or (0,)) != many:
        return False
    pieces = {_shape(*way) for way in node.next_functions if way[0] is not None}
    return len(pieces) > 1 or pieces <= {(), (1,)}


def _averaged(node: Any) -> int:
    taken = saved(node, "_saved_self")
    return getattr(node, "_saved_self_sym_numel", 0) if taken is None else int(taken.numel())


def _is_one(node: Any, output: int) -> bool:
    shape = _shape(node, output)
    return shape is not None and prod(shape) == 1


def _shape(node: Any, output: int) -> tuple[int, ...] | None:
    """Return the shape of an operation's result, None where autograd does not tell."""
    told = getattr(node, "_input_metadata", ())
    return tuple(told[output].shape) if output < len(told) else None
