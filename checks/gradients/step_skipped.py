"""A rank leaves a step of the optimizer out, or makes one more, and its replica goes its own way.

Why it matters
    DistributedDataParallel averages gradients; each rank makes its own step with them. A rank that
    decides by itself to leave one out (an overflow that it alone looks for, an empty batch) has
    other weights from then on, and from there the ranks' gradients are those of unlike models.
    Nothing raises.

What to do
    Let all ranks decide together: all-reduce the flag (MAX) before the step is skipped. Gradients
    after backward() are the same on all ranks: look for infinities there, and not in the loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding
from ddpcheck.measures.passes import Passes
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import spans


class Facts(msgspec.Struct, frozen=True):
    """A rank's steps; ``group`` are the ranks of its DDP."""

    steps: tuple[Passes, ...]
    group: tuple[int, ...] = ()


class Observer:
    """Counts passes between the steps of the optimizer."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.passes import StepPasses

        self._ctx = ctx
        self._passes = StepPasses()
        self.parts = (self._passes,)

    def facts(self) -> Facts:
        """Return the counts; raises Skip where no script trains through DDP."""
        self._ctx.require_watch()
        if not self._passes.group:
            raise Skip("no model was trained through DistributedDataParallel")
        if self._passes.joins:
            raise Skip("inside of join() ranks that are through make steps with the others")
        return Facts(tuple(self._passes.steps), self._passes.group)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each group of ranks, of the first step that they do not take alike."""
    groups = grouped({rank: own.group for rank, own in facts.items()})
    found = (_first_unlike({rank: facts[rank] for rank in ranks}) for ranks in groups.values())
    return [finding for finding in found if finding is not None]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many steps were compared."""
    return f"{min(len(own.steps) for own in facts.values())} steps compared"


def _first_unlike(facts: Mapping[int, Facts]) -> Finding | None:
    for step in range(min(len(own.steps) for own in facts.values())):
        passes = {rank: own.steps[step] for rank, own in facts.items()}
        if any(each.forward < each.backward for each in passes.values()):
            return None  # other models are trained as well: whose step it is, is not known
        if any(each.forward > each.backward for each in passes.values()):
            continue  # a pass was left out, or a rank looked at its model
        averaged = {rank: each.averaged for rank, each in passes.items()}
        if len(set(averaged.values())) > 1:
            every = Counter(each.averaged for own in facts.values() for each in own.steps)
            return _finding(step, averaged, usual=every.most_common(1)[0][0])
    return None


def _finding(step: int, averaged: Mapping[int, int], usual: int) -> Finding:
    odd = tuple(rank for rank, count in sorted(averaged.items()) if count != usual)
    own = averaged[odd[0]]
    return Finding(
        title=f"rank {spans(odd)} makes step {step} of the optimizer after other backward passes",
        message=f"rank {odd[0]} made {own} backward passes before it whose gradients are averaged, "
        f"the others {usual}: it left {'a step' if own > usual else 'a backward pass'} out, and its "
        "weights differ from there",
        fix="decide on all ranks together whether to skip a step (all-reduce the flag), or look at "
        "the averaged gradients, which are the same on all ranks",
        ranks=odd,
        confidence=Confidence.HIGH,
    )
