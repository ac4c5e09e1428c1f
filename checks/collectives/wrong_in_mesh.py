"""A group along an axis of the device mesh gives a wrong element.

Why it matters
    Data, tensor and pipeline parallel groups overlap, share links and are at work at once. What
    is right among all ranks may be wrong in a part of them, or while other parts are busy.

What to do
    Run again with --select collectives and only the named axis in --mesh. With NCCL, try
    NCCL_P2P_DISABLE=1 in turn with CUDA_DEVICE_MAX_CONNECTIONS=1; report the versions upstream.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding
from ddpcheck.measures.along_mesh import Along
from ddpcheck.measures.bus_bandwidth import bus_gbps
from ddpcheck.measures.wrong_elements import findings

ID = "collectives/wrong-in-mesh"


class Facts(msgspec.Struct, frozen=True):
    """What came of each axis on this rank, in the order of the mesh."""

    axes: tuple[Along, ...]


def probe(ctx: Context) -> Facts:
    """Try the groups of each axis, axis by axis, and then all at once."""
    ctx.require_group()
    if not ctx.mesh:
        raise Skip("no --mesh is given")
    from ddpcheck.collectives.agreement import agreement
    from ddpcheck.collectives.along_mesh import compared_along

    return Facts(compared_along(ctx, agreement(ctx, ID)))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each axis that is wrong alone; otherwise for those wrong at once."""
    count = len(next(iter(facts.values())).axes)
    found: list[Finding] = []
    for place in range(count):
        here = {rank: fact.axes[place] for rank, fact in facts.items()}
        name = next(iter(here.values())).axis
        alone = {rank: along.alone for rank, along in here.items()}
        at_once = {rank: along.at_once for rank, along in here.items()}
        found += findings(alone, f" along {name}") or findings(
            at_once, f" along {name} while the other axes are at work"
        )
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the bus bandwidth of each axis, in its slowest group."""
    axes = zip(*(fact.axes for fact in facts.values()), strict=True)
    return ", ".join(_speed(ranks) for ranks in axes)


def _speed(ranks: tuple[Along, ...]) -> str:
    slow = max(ranks, key=lambda along: along.took_s)
    world = len(slow.ranks)
    if world == 1:
        return f"{slow.axis} 1"
    return f"{slow.axis} {world}: {bus_gbps('all_reduce', world, slow.size_bytes, slow.took_s):.2g} GB/s"
