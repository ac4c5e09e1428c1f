"""A buffer that each rank changes by its own batches goes apart, and nobody hands it out.

Why it matters
    With broadcast_buffers=False DistributedDataParallel leaves buffers alone, and those of a loss
    beside the model anyway. A codebook that is moved by averages, the statistics that inputs are
    normalized with, or a center of targets then become another one on each rank: each computes
    something else with the same parameters, and rank 0's is what is saved.

What to do
    Average what changes the buffer over the ranks before it is changed (all_reduce of the sums and
    the counts), or let DDP hand out rank 0's (broadcast_buffers=True).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.sketch import Difference, Sketch, first_difference
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.own_buffers import LossBuffers, OwnBuffers

# Of its size. Below it is what batches of one distribution make of long averages.
LEAST_RELATIVE = 0.01
FIX = "average what changes the buffer over the ranks (all_reduce) before it is changed"


class Facts(msgspec.Struct, frozen=True):
    """Sketches of buffers of floating point numbers before and after, on the ranks of its DDP.

    ``gradual`` are those of several numbers that a step changes a little, as an average is; a queue
    of past samples has others at once, and each rank may have its own. ``line`` is that of the model's
    first forward pass, and ``lines`` of what a loss beside it has is where that is called.
    """

    group: tuple[int, ...]
    before: dict[str, Sketch]
    after: dict[str, Sketch]
    gradual: tuple[str, ...]
    steps: int
    line: Location | None = None
    lines: dict[str, Location | None] = {}


class Observer:
    """Sketches the buffers that nobody hands out."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._group: tuple[int, ...] = ()
        self._buffers: OwnBuffers | None = None
        self._losses: list[LossBuffers] = []
        self._steps = 0
        self._line: Location | None = None

    def on_built(self, live: Trained) -> None:
        """Sketch what they start from."""
        from ddpcheck.watch.callsite import users_line
        from ddpcheck.watch.own_buffers import KEPT_LOSSES, buffers_beside, buffers_in
        from ddpcheck.watch.replicas import group_of

        if live.ddp is not None and self._ctx.watches:
            self._group, self._line = group_of(live.ddp), users_line()
            self._buffers = buffers_in(live.ddp)
            self._losses = list(islice(buffers_beside(live.module), KEPT_LOSSES))

    def on_step(self, step: int) -> None:
        """Count the step."""
        self._steps = step + 1
        for each in (self._buffers, *self._losses):
            if each is not None:
                each.note(step)

    def facts(self) -> Facts:
        """Return the sketches; raises Skip where DDP hands all buffers out, or there are none."""
        self._ctx.require_watch()
        if self._buffers is None:
            raise Skip("no model was trained through DistributedDataParallel")
        for each in self._losses:
            each.close()
        losses = [each for each in self._losses if each.called is not None and each.gradual()]
        if not self._buffers.before and not losses:
            raise Skip("the model has no buffer that is neither handed out nor BatchNorm's")
        every = (self._buffers, *losses)
        before = {name: own for each in every for name, own in each.before.items()}
        after = {name: own for each in every for name, own in each.sketch().items()}
        gradual = tuple(name for each in every for name in each.gradual())
        lines = {name: each.called for each in losses for name in each.before}
        return Facts(self._group, before, after, gradual, self._steps, self._line, lines)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each group whose buffers were alike at first, and are not in the end."""
    found: list[Finding] = []
    for ranks in grouped({rank: own.group for rank, own in facts.items()}).values():
        own = {rank: facts[rank] for rank in ranks}
        if len({each.steps for each in own.values()}) > 1:
            continue  # a rank that stopped in another step is elsewhere: gradients/step-raised
        told = {rank: _alike_at_first(own, rank) for rank in own}
        used = {rank: _only(own[rank].gradual, each) for rank, each in told.items()}
        sure = first_difference(used, beyond=LEAST_RELATIVE)
        apart = sure or first_difference(told)
        if apart is not None:
            found.append(_finding(own, apart, is_sure=sure is not None))
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many buffers were compared."""
    own = next(iter(facts.values()))
    return f"{len(own.after)} buffers compared on {len(facts)} ranks over {own.steps} steps"


def _alike_at_first(own: Mapping[int, Facts], rank: int) -> dict[str, Sketch]:
    """Return a rank's buffers in the end, but those that had other values from the start."""
    starts = [each.before for each in own.values()]
    return {
        name: sketch
        for name, sketch in own[rank].after.items()
        if len({each[name].digest if name in each else "" for each in starts}) == 1
    }


def _only(names: Collection[str], sketches: Mapping[str, Sketch]) -> dict[str, Sketch]:
    return {name: each for name, each in sketches.items() if name in names}


def _finding(own: Mapping[int, Facts], apart: Difference, *, is_sure: bool) -> Finding:
    first = own[min(own)]
    return Finding(
        title="buffers go apart: each rank changes its own, and nobody hands them out",
        message=f"{apart.name} is the first of {apart.differing} that differ on ranks {spans(own)} "
        f"after {first.steps} steps, by {apart.relative:.1e} of its size (limit {LEAST_RELATIVE})"
        + ("" if is_sure else ", which may be meant"),
        fix=FIX if apart.name in first.lines else f"{FIX}, or use broadcast_buffers=True",
        ranks=tuple(sorted(own)),
        severity=Severity.WARNING if is_sure else Severity.INFO,
        confidence=Confidence.MEDIUM if is_sure else Confidence.LOW,
        location=first.lines.get(apart.name, first.line),
        evidence={"buffer": apart.name, "relative_difference": apart.relative},
    )
