"""How fast groups are that share no rank, all of a split at work at once."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import torch.distributed as dist

from ddpcheck.check import Context, Profile, Skip
from ddpcheck.collectives.agreement import Agreement
from ddpcheck.collectives.cases import Case
from ddpcheck.collectives.kinds import BY_NAME
from ddpcheck.collectives.timing import Pace, timed_s
from ddpcheck.collectives.trial import Trial
from ddpcheck.measures.disjoint_groups import KIND, Group, Split, splits

TIMED = Case(KIND, "float32", "SUM", 2**18, "contiguous", "blocking")
TIMED_ON_GPU = TIMED._replace(size=2**24)
PACES = {
    Profile.QUICK: Pace(2, 5, 0.02),
    Profile.STANDARD: Pace(3, 20, 0.02),
    Profile.FULL: Pace(10, 200, 0.5),
}
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
    return tuple(_timed(ctx, split, groups, agreed) for split, groups in found.items())


def _timed(
    ctx: Context, split: Split, groups: Sequence[tuple[int, ...]], agreed: Agreement
) -> Group:
    (own,) = (ranks for ranks in groups if ctx.rank in ranks)
    # Only its members make a group: a thousand hosts need not make a thousand groups each.
    group = dist.new_group(own, use_local_synchronization=True)
    case = TIMED_ON_GPU if ctx.on_gpu else TIMED
    trial = Trial(own.index(ctx.rank), own, ctx.device, group)
    call, among = trial.begin(case), agreed.part(f"{split}/{own}")
    tries: list[float] = []
    for _ in range(TRIES_COUNT):
        dist.barrier()  # all groups are at work at the same time
        tries.append(median(timed_s(BY_NAME[KIND], call, PACES[ctx.profile], among)))
    dist.barrier()
    dist.destroy_process_group(group)
    return Group(split, own, 4 * case.size, round(min(tries), 7))
