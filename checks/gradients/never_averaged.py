"""An optimizer trains parameters beside the model, and nobody averages their gradients.

Why it matters
    A generator, a projection head or a sparse table with an optimizer of its own is easily left out
    where the main model is wrapped, or where gradients are summed. Each rank then trains a copy of
    its own: no error, a loss that falls, and a checkpoint with one rank's.

What to do
    Wrap each model that is trained in DistributedDataParallel, and call it through the wrapper, or
    average the gradients of all optimizers before their steps, sparse ones, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.drift import first_drift
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.sketch import Sketch
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

Ranks = tuple[int, ...]
MEANT = ", which may be meant"


class Facts(msgspec.Struct, frozen=True):
    """Sketches of what other optimizers train, before and after; see ``measures.drift.Replica``.

    ``group`` are the ranks among which the gradients of the main model are averaged, ``is_wrapped`` by
    DDP or FSDP. ``linked`` is whether they are trained through the model, or it through them. ``names`` has what the script calls a parameter, ``lines`` where its optimizer was made.
    """

    group: Ranks
    is_wrapped: bool
    before: dict[str, Sketch]
    after: dict[str, Sketch]
    steps: int
    norms: tuple[str, ...]
    names: dict[str, str]
    lines: dict[str, Location | None]
    linked: bool = True
    apart_by_design: bool = False
    gradients: tuple[dict[str, Sketch], ...] = ()


class Observer:
    """Sketches what optimizers beside that of the model have, and counts their steps."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.averaging import Averaging
        from ddpcheck.watch.by_hand import ByHand
        from ddpcheck.watch.trained_beside import TrainedBeside

        self._ctx = ctx
        self._live: Trained | None = None
        self.parts: tuple[Any, ...] = (Averaging(), ByHand(), TrainedBeside())

    def on_built(self, live: Trained) -> None:
        """Remember how the model is wrapped."""
        self._live = live

    def facts(self) -> Facts:
        """Return the sketches; raises Skip where one optimizer trains all, or parts of one model."""
        self._ctx.require_watch()
        averaging, by_hand, beside = self.parts
        beside.close()
        if not beside.steps:
            raise Skip("one optimizer trains all that is trained")
        if by_hand.shares_passes:
            raise Skip("ranks hold parts of one model, or share its passes")
        return Facts(
            group=averaging.ranks or by_hand.ranks,
            is_wrapped=bool(averaging.ranks),
            before=beside.before,
            after=beside.sketch(),
            steps=beside.steps,
            norms=beside.digests(),
            names=beside.names,
            lines=beside.lines,
            linked=beside.linked,
        )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each group whose copies of them differ.

    Where the script averages by hand, what differs from the start may be each rank's own, and so may
    what only some ranks have.
    """
    found: list[Finding] = []
    for group, members in grouped({rank: own.group for rank, own in facts.items()}).items():
        own = {rank: facts[rank] for rank in members}
        is_like = len({tuple(each.before) for each in own.values()}) == 1
        drift = first_drift(own) if is_like and len(members) == len(group) > 1 else None
        if drift is not None and (drift.step >= 0 or own[members[0]].is_wrapped):
            found.append(_finding(own[members[0]], group, drift.found.name, drift.step >= 0))
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many parameters were compared."""
    own = next(iter(facts.values()))
    return f"{len(own.after)} parameters of other optimizers compared over {own.steps} steps"


def _finding(own: Facts, group: Ranks, name: str, were_alike: bool) -> Finding:
    called = own.names.get(name, name)
    is_sure = own.linked and were_alike
    since = "though they were alike at first" if were_alike else "and did so at first"
    how = "wrapped model" if own.is_wrapped else "model whose gradients are summed"
    return Finding(
        title=f"each rank trains a {called} of its own",
        message=f"{called} differs between ranks {spans(group)} after {own.steps} steps of its "
        f"optimizer, {since}: it is not a part of the {how}, and nobody averages its gradient{'' if is_sure else MEANT}",
        fix="wrap what this optimizer trains in DistributedDataParallel, too, and call it through the "
        "wrapper, or average its gradients over the ranks before the step",
        ranks=group,
        severity=Severity.WARNING if is_sure else Severity.INFO,
        confidence=Confidence.MEDIUM if is_sure else Confidence.LOW,
        location=own.lines.get(name),
        evidence={"parameter": called},
    )
