"""A barrier lets a rank go on before all have come.

Why it matters
    Scripts rely on a barrier when rank 0 writes a file that the others read, or downloads a
    dataset for its host. A barrier that waits for nobody makes that a race.

What to do
    See that nothing replaces torch.distributed.barrier, and that all ranks are in the group
    whose barrier it is. With NCCL, give init_process_group a device_id.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding

ID = "collectives/leaky-barrier"


class Facts(msgspec.Struct, frozen=True):
    """The ranks for which a barrier did not wait, though this rank was in it."""

    not_awaited: tuple[int, ...]


def probe(ctx: Context) -> Facts:
    """Enter barriers to which another rank comes last: the first rank once, and the last."""
    from ddpcheck.collectives.barrier import come_last, left_early

    ctx.require_group()
    if ctx.store is None or ctx.world_size == 1:
        raise Skip("there is no other rank")
    missed: list[int] = []
    for late in (0, ctx.world_size - 1):
        key = f"{ID}/{late}"
        if late == ctx.rank:
            come_last(ctx.store, key, ctx.world_size - 1, ctx.clock)
        elif left_early(ctx.store, key):
            missed.append(late)
    return Facts(tuple(missed))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for the ranks that a barrier let through."""
    early = tuple(rank for rank in sorted(facts) if facts[rank].not_awaited)
    if not early:
        return []
    late = facts[early[0]].not_awaited[0]
    return [
        Finding(
            title=f"a barrier does not wait, on {len(early)} of {len(facts)} ranks",
            message=f"rank {early[0]} came out of it before rank {late} had come",
            fix="see that nothing replaces torch.distributed.barrier, and give init_process_group "
            "a device_id with NCCL",
            ranks=early,
            evidence={str(rank): list(facts[rank].not_awaited) for rank in early},
        )
    ]
