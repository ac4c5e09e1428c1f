"""Some ranks skip a backward pass that others make.

Why it matters
    DistributedDataParallel pairs the ranks' backward passes by their order alone. A rank that
    leaves one out, because its loss was not finite, say, averages its next gradients with those
    of another step from then on; nothing is said until some rank waits for ever, at the end of
    the epoch. A forward pass that only one rank makes is as bad where the model has buffers: they
    are broadcast.

What to do
    Let all ranks decide together: all-reduce the flag (MAX) before the step is skipped. Log and
    evaluate through model.module, or on every rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.passes import Passes
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained


class Facts(msgspec.Struct, frozen=True):
    """A rank's steps; ``group`` are the ranks of its DDP, ``broadcasts`` whether it has buffers.

    ``left_out`` is where it made the first forward pass that it left out.
    """

    steps: tuple[Passes, ...]
    group: tuple[int, ...] = ()
    broadcasts: bool = False
    left_out: Location | None = None


class Observer:
    """Counts passes between the steps of the optimizer."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.forwards import Forwards
        from ddpcheck.watch.passes import StepPasses

        self._ctx = ctx
        self._forwards = Forwards()
        self._passes = StepPasses(self._forwards)
        self.parts = (self._passes,)
        self._broadcasts = False

    def on_built(self, live: Trained) -> None:
        """Note whether the forward passes broadcast buffers."""
        if live.ddp is not None:
            buffer = next(live.module.buffers(), None)
            self._broadcasts = bool(live.ddp.broadcast_buffers and buffer is not None)

    def facts(self) -> Facts:
        """Return the counts; raises Skip where no script trains through DDP."""
        self._ctx.require_watch()
        if not self._passes.group:
            raise Skip("no model was trained through DistributedDataParallel")
        if self._passes.joins:
            raise Skip("inside of join() ranks that are through make no passes, as they may")
        seen, place = self._passes, self._forwards.first_left_out
        return Facts(tuple(seen.steps), seen.group, self._broadcasts, place)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each group of ranks, of the first step that they do not take alike."""
    groups = grouped({rank: own.group for rank, own in facts.items()})
    found = (_first_unlike({rank: facts[rank] for rank in ranks}) for ranks in groups.values())
    return [finding for finding in found if finding is not None]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many steps were compared."""
    return f"{min(len(own.steps) for own in facts.values())} steps compared"


def _first_unlike(facts: Mapping[int, Facts]) -> Finding | None:
    """Return the first step that does harm, or the first one that is unlike."""
    found: Finding | None = None
    for step in range(min(len(own.steps) for own in facts.values())):
        passes = {rank: own.steps[step] for rank, own in facts.items()}
        if any(each.forward < each.backward for each in passes.values()):
            return found  # another model is trained as well: whose step it is, is not known
        # Ranks may accumulate other numbers of backward passes: each has its forward pass.
        left_over = {rank: own.forward - own.backward for rank, own in passes.items()}
        more = tuple(r for r, count in left_over.items() if count > min(left_over.values()))
        if more:
            rest = tuple(rank for rank in left_over if rank not in more)
            one = _finding(step, passes, min(more, rest, key=len), facts)
            found = found or one
            if one.severity is Severity.ERROR:
                return one
    return found


def _finding(
    step: int, passes: Mapping[int, Passes], odd: tuple[int, ...], facts: Mapping[int, Facts]
) -> Finding:
    own, rest = passes[odd[0]], next((p for r, p in passes.items() if r not in odd), None)
    others = f", the others {_told(rest)}" if rest is not None else ""
    # A look at the model on one rank takes no batch, and harms nobody without buffers.
    told = passes.values()
    is_skip = len({each.batches for each in told}) > 1 or len({each.left_out for each in told}) > 1
    harmful = is_skip or any(each.broadcasts for each in facts.values())
    return Finding(
        title=f"rank {spans(odd)} makes other passes than the rest in step {step}",
        message=f"rank {odd[0]} {_told(own)} in step {step}{others}"
        + ("; backward passes pair off wrongly from there" if is_skip else "")
        + ("; each forward pass broadcasts buffers" if harmful and not is_skip else ""),
        fix="decide on all ranks together whether to skip (all-reduce the flag), and log or evaluate "
        "through model.module",
        ranks=odd,
        severity=Severity.ERROR if harmful else Severity.INFO,
        confidence=Confidence.HIGH if harmful else Confidence.MEDIUM,
        location=facts[odd[0]].left_out if is_skip else None,
    )


def _told(passes: Passes) -> str:
    batches = f"took {passes.batches} batches, " if passes.batches else "made "
    return f"{batches}{passes.forward} forward and {passes.backward} backward passes"
