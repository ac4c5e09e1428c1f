"""Objects that are sent between ranks: pickled, sent as bytes, and read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist

Arrived = dict[int, Any]  # what came from each rank


def object_of(rank: int) -> dict[str, Any]:
    """Return an object that differs in content and in length from that of any other rank."""
    return {"rank": rank, "text": "é" * (rank + 1), "numbers": [rank, 0.1 * rank, None]}


def wrong_objects(rank: int, world_size: int) -> dict[str, int]:
    """Return, by the name of a function, of which rank's object something else arrived first."""
    wrong: dict[str, int] = {}
    for name, exchange in EXCHANGES.items():
        for source, arrived in exchange(rank, world_size).items():
            if arrived != object_of(source):
                wrong.setdefault(name, source)
    return wrong


def _all_gather(rank: int, world_size: int) -> Arrived:
    into: list[Any] = [None] * world_size
    dist.all_gather_object(into, object_of(rank))
    return dict(enumerate(into))


def _gather(rank: int, world_size: int) -> Arrived:
    root = world_size - 1
    into: list[Any] = [None] * world_size if rank == root else []
    dist.gather_object(object_of(rank), into or None, root)
    return dict(enumerate(into))


def _broadcast(rank: int, world_size: int) -> Arrived:
    root = world_size - 1
    objects = [object_of(root) if rank == root else None]
    dist.broadcast_object_list(objects, root)
    return {root: objects[0]}


def _scatter(rank: int, world_size: int) -> Arrived:
    into: list[Any] = [None]
    dist.scatter_object_list(into, [object_of(each) for each in range(world_size)], 0)
    return {rank: into[0]}


EXCHANGES: dict[str, Callable[[int, int], Arrived]] = {
    "all_gather_object": _all_gather,
    "gather_object": _gather,
    "broadcast_object_list": _broadcast,
    "scatter_object_list": _scatter,
}
