"""The groups along each axis of a device mesh: right alone, right all at once, and how fast."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from statistics import median

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from ddpcheck.check import Context, Profile
from ddpcheck.collectives.agreement import Agreement
from ddpcheck.collectives.cases import Case
from ddpcheck.collectives.comparison import Tally
from ddpcheck.collectives.in_flight import carry_out, lane_of
from ddpcheck.collectives.kinds import BY_NAME
from ddpcheck.collectives.timing import Pace, timed_s
from ddpcheck.collectives.trial import Trial
from ddpcheck.measures.along_mesh import Along

# What strategies do along an axis: dp, fsdp, tp, cp and ep, pp.
KINDS = (
    "all_reduce",
    "reduce_scatter_tensor",
    "all_gather_into_tensor",
    "all_to_all_single",
    "broadcast",
    "batch_isend_irecv",
)
SIZES = (1023, 2**14 + 3)
DTYPES = ("float32", "bfloat16")
TIMED = Case("all_reduce", "float32", "SUM", 2**18, "contiguous", "blocking")
TIMED_ON_GPU = TIMED._replace(size=2**24)
PACES = {
    Profile.QUICK: Pace(2, 5, 0.02),
    Profile.STANDARD: Pace(3, 20, 0.05),
    Profile.FULL: Pace(10, 200, 1.0),
}
ROUNDS = {Profile.QUICK: 2, Profile.STANDARD: 4, Profile.FULL: 100}


def compared_along(ctx: Context, agreed: Agreement) -> tuple[Along, ...]:
    """Return what came of each axis: its groups at work alone, and then with all axes' at once."""
    names = tuple(axis.name for axis in ctx.mesh)
    sizes = tuple(axis.size for axis in ctx.mesh)
    mesh = init_device_mesh(ctx.device.partition(":")[0], sizes, mesh_dim_names=names)
    groups = [mesh.get_group(name) for name in names]
    alone = [_alone(ctx, group) for group in groups]
    took_s = [_took_s(ctx, tally, agreed) for tally in alone]
    at_once = [_tally(ctx, group) for group in groups]
    lanes = [lane_of(ctx) for _ in groups]
    offered = [case for case in _cases() if all(tally.takes(case) for tally in alone)]
    for case in islice(cycle(offered), ROUNDS[ctx.profile]):
        carry_out([(tally, lane, case) for tally, lane in zip(at_once, lanes, strict=True)])
    for group in groups:
        if group is not dist.group.WORLD:  # an axis of all ranks has none of its own
            dist.destroy_process_group(group)
    return tuple(
        Along(
            axis=name,
            ranks=one.trial.members,
            alone=one.facts(ctx.backend),
            at_once=other.facts(ctx.backend),
            size_bytes=4 * _timed(ctx).size,
            took_s=seconds,
        )
        for name, one, other, seconds in zip(names, alone, at_once, took_s, strict=True)
    )


def _alone(ctx: Context, group: dist.ProcessGroup) -> Tally:
    tally = _tally(ctx, group)
    for case in _cases():
        tally.add(case)
    return tally


def _tally(ctx: Context, group: dist.ProcessGroup) -> Tally:
    members = dist.get_process_group_ranks(group)
    return Tally(Trial(members.index(ctx.rank), members, ctx.device, group))


def _cases() -> Iterator[Case]:
    for name in KINDS:
        for dtype, size in zip(DTYPES, SIZES, strict=True):
            yield Case(name, dtype, BY_NAME[name].plain_op, size, "contiguous", "async")


def _timed(ctx: Context) -> Case:
    return TIMED_ON_GPU if ctx.on_gpu else TIMED


def _took_s(ctx: Context, tally: Tally, agreed: Agreement) -> float:
    case = _timed(ctx)
    call = tally.trial.begin(case)
    among = agreed.part(f"{tally.trial.members}")
    return median(timed_s(BY_NAME[case.kind], call, PACES[ctx.profile], among))
