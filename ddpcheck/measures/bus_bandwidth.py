"""How fast a collective is, as nccl-tests defines it.

Source: nccl-tests, doc/PERFORMANCE.md. The algorithm bandwidth is the size of a collective by the
time it takes; the bus bandwidth is what each rank's link carries meanwhile, and so can be compared
with the link's own speed, whatever the number of ranks.
"""

from __future__ import annotations

# Which part of a collective's size goes through each rank's link, by the number n of ranks: some
# of all ranks' blocks are a rank's own, and an all-reduce is a reduce-scatter and an all-gather.
SHARED = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")


def bus_factor(kind: str, world_size: int) -> float:
    """Return bus bandwidth by algorithm bandwidth for a collective among so many ranks."""
    others = (world_size - 1) / world_size
    if kind == "all_reduce":
        return 2 * others
    return others if kind.startswith(SHARED) else 1.0


def bus_gbps(kind: str, world_size: int, size_bytes: int, took_s: float) -> float:
    """Return the bus bandwidth in decimal GB/s.

    ``size_bytes`` is that of all blocks of one rank: of what it puts in or of what it gets,
    whichever is more.
    """
    return size_bytes * bus_factor(kind, world_size) / took_s / 1e9
