"""The times of collectives over a range of sizes."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median, quantiles

import torch

from ddpcheck.check import Context, Profile
from ddpcheck.collectives.agreement import Agreement
from ddpcheck.collectives.cases import Case, most_blocks
from ddpcheck.collectives.comparison import is_refusal
from ddpcheck.collectives.kinds import BY_NAME, WITHIN, Kind
from ddpcheck.collectives.timing import Pace, timed_s, wire_s
from ddpcheck.collectives.trial import Trial
from ddpcheck.machine.core_waits import CoreWaits
from ddpcheck.measures.collective_speed import Speed

DTYPE, ITEM_BYTES = "float32", 4
KINDS = (
    "all_reduce",
    "all_gather_into_tensor",
    "reduce_scatter_tensor",
    "broadcast",
    "all_to_all_single",
    "batch_isend_irecv ring",  # what nccl-tests calls sendrecv
)
FEW = ("all_reduce",)
KIB, MIB = 2**10, 2**20
SIZES_BYTES = {
    (False, Profile.QUICK): (KIB,),
    (False, Profile.STANDARD): (KIB, 2 * MIB),
    (False, Profile.FULL): tuple(4**power for power in range(2, 14)),  # to 64 MiB
    (True, Profile.QUICK): (KIB, 64 * MIB),
    (True, Profile.STANDARD): (KIB, MIB, 64 * MIB),
    (True, Profile.FULL): tuple(4**power for power in range(2, 16)),  # to 1 GiB
}
PACES = {
    Profile.QUICK: Pace(3, 10, 0.02),
    Profile.STANDARD: Pace(5, 20, 0.02),
    Profile.FULL: Pace(20, 100, 1.0),
}


def swept(ctx: Context, agreed: Agreement) -> tuple[Speed, ...]:
    """Return the times of each kind in each size of the profile; what is refused is left out.

    The kinds take turns within a size: what disturbs the machine for a while disturbs all.
    """
    trial = Trial(ctx.rank, range(ctx.world_size), ctx.device)
    found = (_speed(ctx, trial, case, agreed) for case in _cases(ctx))
    return tuple(speed for speed in found if speed is not None)


def _cases(ctx: Context) -> Iterator[Case]:
    for size_bytes in SIZES_BYTES[ctx.on_gpu, ctx.profile]:
        for name in FEW if ctx.profile is Profile.QUICK else KINDS:
            kind = BY_NAME[name]
            size = size_bytes // ITEM_BYTES // most_blocks(kind, ctx.world_size)
            if size:
                for memory in _memories(kind, ctx.profile):
                    yield Case(name, DTYPE, kind.plain_op, size, memory, "blocking")


def _memories(kind: Kind, profile: Profile) -> tuple[str, ...]:
    both = profile is Profile.FULL and kind.memories == WITHIN
    return ("contiguous", "in place") if both else ("contiguous",)


def _speed(ctx: Context, trial: Trial, case: Case, agreed: Agreement) -> Speed | None:
    kind, call = BY_NAME[case.kind], trial.begin(case)
    waits = CoreWaits()
    try:
        took_s = timed_s(kind, call, PACES[ctx.profile], agreed)
    except (RuntimeError, ValueError) as error:
        if is_refusal(str(error)):
            return None
        raise
    core_waits = waits.share
    quarter_s, _, three_quarters_s = quantiles(took_s, n=4)
    of_interest = ctx.profile is Profile.FULL or case.size * ITEM_BYTES <= KIB
    wire = wire_s(kind, call) if of_interest else None
    if ctx.on_gpu:
        torch.cuda.empty_cache()
    return Speed(
        kind=case.kind,
        memory=case.memory,
        size_bytes=case.size * ITEM_BYTES * most_blocks(kind, ctx.world_size),
        goes=len(took_s),
        least_s=_rounded(min(took_s)),
        quarter_s=_rounded(quarter_s),
        median_s=_rounded(median(took_s)),
        three_quarters_s=_rounded(three_quarters_s),
        p99_s=_rounded(quantiles(took_s, n=100, method="inclusive")[-1]),
        wire_s=None if wire is None else _rounded(wire),
        core_waits=core_waits,
    )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")
