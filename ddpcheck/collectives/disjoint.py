"""How fast groups are that share no rank, all of a split at work at once."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from ddpcheck.check import Context, Profile, Skip
from ddpcheck.collectives.agreement import Agreement
from ddpcheck.collectives.timing import affordable_bytes, reductions_s
from ddpcheck.measures.disjoint_groups import Group, Split, splits

MOST_BYTES, MOST_BYTES_ON_GPU = 2**20, 2**26
GOES = {Profile.QUICK: 3, Profile.STANDARD: 5, Profile.FULL: 50}
# To make a group takes all ranks a moment. Of more than so many, ranks make their own ones only.
MOST_GROUPS_COUNT = 32
# What disturbs a machine for a while does not disturb all tries: the best one counts.
TRIES_COUNT = 3


def timed_groups(ctx: Context, place: str, agreed: Agreement) -> tuple[Group, ...]:
    """Return this rank's groups with their times; raises Skip where no two groups are alike.

    ``place`` is the same for the ranks of one host.
    """
    everyone = agreed.told(place, ctx.rank, ctx.world_size)
    found = splits([text.decode() for text in everyone()])
    if not found:
        raise Skip("it takes several hosts with as many ranks each, and more than one")
    most_bytes = MOST_BYTES_ON_GPU if ctx.on_gpu else MOST_BYTES
    goes, sharing = TRIES_COUNT * GOES[ctx.profile], len(found[Split.RAILS])
    size_bytes = affordable_bytes(ctx, agreed, most_bytes, goes, sharing)
    return tuple(_timed(ctx, split, groups, size_bytes) for split, groups in found.items())


def _timed(ctx: Context, split: Split, groups: Sequence[tuple[int, ...]], size_bytes: int) -> Group:
    own, group = _made(groups, ctx.rank)
    buffer = torch.zeros(size_bytes // 4, device=ctx.device)
    tries: list[float] = []
    for _ in range(TRIES_COUNT):
        dist.barrier()  # all groups are at work at the same time
        tries.append(median(reductions_s(buffer, GOES[ctx.profile], group)))
    dist.barrier()
    dist.destroy_process_group(group)
    if ctx.on_gpu:
        torch.cuda.empty_cache()  # what torch keeps NCCL cannot use
    return Group(split, own, size_bytes, round(min(tries), 7))


def _made(groups: Sequence[tuple[int, ...]], rank: int) -> tuple[tuple[int, ...], Any]:
    """Return the rank's group as its ranks, and as torch makes it."""
    (own,) = (ranks for ranks in groups if rank in ranks)
    if len(groups) > MOST_GROUPS_COUNT:
        return own, dist.new_group(own, use_local_synchronization=True)
    # Groups made so have a number that no later group has: the user may make the same ones.
    made = {ranks: dist.new_group(ranks) for ranks in groups}
    return own, made[own]
