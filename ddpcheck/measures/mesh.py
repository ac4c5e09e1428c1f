"""A mesh of ranks, such as dp=2,tp=2: its axes, and the groups of ranks along each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import msgspec


class Axis(msgspec.Struct, frozen=True):
    """One dimension of a mesh: its name and the number of ranks along it."""

    name: str
    size: int


def parse_mesh(text: str) -> tuple[Axis, ...]:
    """Return the axes of a text such as "dp=2,tp=2"; raises ValueError, which says what is wrong."""
    axes = tuple(_parse_axis(part) for part in text.split(",") if part.strip())
    names = [axis.name for axis in axes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} stands twice in it")
    return axes


def groups_along(axes: Sequence[Axis], name: str) -> list[tuple[int, ...]]:
    """Return the groups of ranks along one axis, in order.

    The last axis varies fastest, as in torch's init_device_mesh: neighbours in it are neighbours
    in rank.
    """
    place = [axis.name for axis in axes].index(name)
    sizes = [axis.size for axis in axes]
    stride = prod(sizes[place + 1 :])
    others = product(*(range(1 if at == place else size) for at, size in enumerate(sizes)))
    firsts = [_rank(at, sizes) for at in others]
    return [tuple(first + stride * n for n in range(sizes[place])) for first in firsts]


def factorings(world_size: int, count: int) -> list[tuple[int, ...]]:
    """Return all ways to write a number of ranks as a product of so many factors, in order."""
    if count <= 1:
        return [(world_size,)] * count
    return [
        (first, *rest)
        for first in range(1, world_size + 1)
        if world_size % first == 0
        for rest in factorings(world_size // first, count - 1)
    ]


def _parse_axis(part: str) -> Axis:
    name, _, size = (word.strip() for word in part.partition("="))
    if not name.isidentifier() or not size.isdecimal() or not int(size):
        raise ValueError(f"{part.strip()!r} is no axis: write NAME=RANKS, such as dp=2,tp=4")
    return Axis(name, int(size))


def _rank(at: Sequence[int], sizes: Sequence[int]) -> int:
    rank = 0
    for place, size in zip(at, sizes, strict=True):
        rank = rank * size + place
    return rank
