"""One rank comes late to every step, and the others wait for it.

Why it matters
    A synchronous step is as long as that of the slowest rank. Where one rank waits for its
    DataLoader, or has more to do before the step than the others, all GPUs of the job idle for as
    long, and every profile but that rank's blames the all-reduce in which the others wait.

What to do
    Look at what the named rank loads and from where: a slow disk, a cold cache, larger samples,
    fewer cores. Give the loader workers (num_workers, persistent_workers, prefetch_factor), and
    take what only one rank does (logging, saving pictures) out of the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.blocks import (
    LEAST_BLOCKS_COUNT,
    LEAST_LATE_S,
    Block,
    Late,
    Place,
    late_by_loader,
    late_by_own_work,
    loader_share,
)
from ddpcheck.measures.peers import grouped

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

# All ranks alike: that half of the step is the loader's is worth a word, no more.
LOADER_STEP_RATIO = 0.5
DOUBT = "; its workers are not seen to be much slower than those of others"
OWN_FIX = "move what only this rank does out of the step, or do it less often"
LOADER_FIX = "look at what this rank's loader reads and from where; give it more workers"
INSIDE_FIX = "look at what only this rank does in it: larger inputs, fewer cores, a slow device"


class Facts(msgspec.Struct, frozen=True):
    """A rank's steps in blocks, the ranks of its DDP, the lines of the loop, the model and backward.

    ``batch_s``: what the loader needs for a batch, 0: unknown. Others are ``Pace``'s.
    """

    blocks: tuple[Block, ...]
    workers: int = 0
    batch_s: float = 0.0
    group: tuple[int, ...] = ()
    loop: Location | None = None
    forward: Location | None = None
    own_is_sure: bool = True
    core_waits: float = 0.0
    backward: Location | None = None


class Observer:
    """Notes where the host's time goes, step by step."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.pace import Pace

        self._ctx = ctx
        self._live: Trained | None = None
        self._group: tuple[int, ...] = ()
        pace = self._pace = Pace(ctx.clock)
        self.parts = (pace.work, pace)

    def on_built(self, live: Trained) -> None:
        """Note who trains together."""
        from ddpcheck.watch.replicas import group_of

        self._live = live
        self._group = group_of(live.ddp) if live.ddp is not None else ()

    def facts(self) -> Facts:
        """Return the blocks; raises Skip where there were too few steps."""
        self._ctx.require_watch()
        blocks = self._pace.blocks()
        if len(blocks) < LEAST_BLOCKS_COUNT:
            raise Skip("the script made too few steps to tell one rank's pace from another's")
        workers = int(getattr(self._live and self._live.loader, "num_workers", 0))
        return Facts(
            blocks=blocks,
            workers=workers,
            batch_s=self._pace.batch_s(workers),
            group=self._group,
            loop=self._pace.loop,
            forward=self._pace.forward,
            own_is_sure=self._pace.own_is_sure,
            core_waits=self._pace.core_waits,
            backward=self._pace.backward,
        )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each rank that the others wait for, or one for all that wait for loaders."""
    found: list[Finding] = []
    for ranks in grouped({rank: own.group for rank, own in facts.items()}).values():
        blocks = {rank: facts[rank].blocks for rank in ranks}
        late = late_by_loader(blocks, {rank: facts[rank].batch_s for rank in ranks})
        places = [(Place.LOADER, each) for each in late]
        if all(facts[rank].own_is_sure for rank in ranks):
            places += late_by_own_work(blocks)
        found += [_finding(each, facts[each.rank], place) for place, each in places]
    return found or _all_alike(facts)


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the part of the step that is the loader's, on the rank where it is largest."""
    share, rank = max((loader_share(own.blocks), rank) for rank, own in facts.items())
    return f"at most {share:.0%} of a step goes to the loader, on rank {rank}"


def _finding(late: Late, own: Facts, place: Place) -> Finding:
    workers = f" ({own.workers} workers)" * (place is Place.LOADER)
    lines = {Place.LOADER: own.loop, Place.AFTER: own.backward}
    fixes = {Place.LOADER: LOADER_FIX, Place.INSIDE: INSIDE_FIX}
    return Finding(
        title=f"every step waits for rank {late.rank}: {place}",
        message=f"{place}{workers} takes {late.told}{'' if late.is_sure else DOUBT}",
        fix=fixes.get(place, OWN_FIX),
        ranks=(late.rank,),
        severity=Severity.WARNING if late.is_sure else Severity.INFO,
        confidence=Confidence.MEDIUM if late.is_sure else Confidence.LOW,
        location=lines.get(place, own.forward),
    )


def _all_alike(facts: Mapping[int, Facts]) -> list[Finding]:
    share = min(loader_share(own.blocks) for own in facts.values())
    least_s = min(median(each.loader_s for each in own.blocks) for own in facts.values())
    if share < LOADER_STEP_RATIO or least_s < LEAST_LATE_S:
        return []
    found = Finding(
        title="all ranks wait for their DataLoaders",
        message=f"at least {share:.0%} of a step, and {1000 * least_s:.0f} ms, go to the loader",
        fix="give the loaders more workers (num_workers), or make their work smaller",
        ranks=tuple(sorted(facts)),
        severity=Severity.INFO,
        location=facts[min(facts)].loop,
    )
    return [found]
