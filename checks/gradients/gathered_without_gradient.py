"""Features go through all_gather, and no gradient comes back to the layers that made them.

Why it matters
    torch.distributed.all_gather and all_gather_into_tensor return tensors without a history. A
    loss that is made of them alone, a contrastive one say, cannot move the layers that its
    features come from: what else the loss has goes on falling, and these layers stay as they are.
    Where the loss has the rank's own features beside, it is a part of the gradient that is missing.

What to do
    Put this rank's own tensor back in its place (gathered[rank] = features), or gather with
    torch.distributed.nn.functional.all_gather; that one adds up the gradients of all ranks, which
    DDP divides by the world size again. Gather what is for a metric, or meant to be a constant,
    from features.detach(). Not seen: a gathered part of an output whose other parts come to the
    loss by another way.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.gathers import Gather
from ddpcheck.measures.words import spans

# By whether all of a gradient is cut: a title, and what was seen.
CUTS = {
    True: (
        "no gradient comes back through an all_gather",
        "no gradient came to it in any of them: all_gather cuts it",
    ),
    False: (
        "a part of a gradient gets lost in an all_gather",
        "the loss has the copy that came out as a constant, beside the tensor itself",
    ),
}


class Facts(msgspec.Struct, frozen=True):
    """A rank's gathers in the forward passes of training, by line and number."""

    gathers: tuple[Gather, ...]


class Observer:
    """Follows what goes into a gather between a forward pass and its backward pass."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.gathers import Gathers

        self._ctx = ctx
        self._gathers = Gathers(ctx.world_size)
        self.parts = (self._gathers,)

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no script trains through DDP."""
        self._ctx.require_watch()
        live = self._gathers.live
        if live is None or live.ddp is None:
            raise Skip("no model was trained through DistributedDataParallel")
        return Facts(self._gathers.seen())


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line with a gather that cuts every gradient, or a part of each."""
    cut: dict[Location | None, dict[int, Gather]] = {}
    for rank, own in sorted(facts.items()):
        for each in own.gathers:
            if each.followed in (each.cut, each.constant):
                cut.setdefault(each.location, {}).setdefault(rank, each)
    return [_finding(location, gathers) for location, gathers in cut.items()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many gathers were followed."""
    count = sum(each.followed for each in facts[min(facts)].gathers)
    return f"gradients came back to {count} gathered tensors" if count else "nothing was gathered"


def _finding(location: Location | None, gathers: Mapping[int, Gather]) -> Finding:
    own = gathers[min(gathers)]
    title, seen = CUTS[own.cut == own.followed]
    made = f", made with {own.parameter}," if own.parameter else ""
    return Finding(
        title=title,
        message=f"a tensor of shape {list(own.shape)}{made} was gathered in the forward pass of "
        f"{own.followed} steps on rank {spans(gathers)}; {seen}",
        fix="put this rank's own tensor back (gathered[rank] = features), or use "
        "torch.distributed.nn.functional.all_gather; for a metric, gather features.detach()",
        ranks=tuple(sorted(gathers)),
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        location=location,
        evidence={"parameter": own.parameter, "shape": list(own.shape)},
    )
