"""An optimizer was made anew, of more parameters than the script's own has.

Why it matters
    Adapters and heads are trained by giving the optimizer their parameters alone. A function that
    prepares the training (a wrapper, ZeRO, FSDP) and makes the optimizer anew from
    model.parameters() trains all of them: what was to stay as it is moves, and no error says so.

What to do
    Give the new optimizer the parameters of the old one: [p for group in old.param_groups for p in
    group["params"]]. Set requires_grad to False for what is not to be trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained


class Facts(msgspec.Struct, frozen=True):
    """How many trained parameters the optimizer in use has, and the one that it replaced.

    ``before`` is 0 where none was replaced. ``made`` and ``replaced`` are where they were made.
    """

    parameters: int
    before: int = 0
    made: Location | None = None
    replaced: Location | None = None


class Observer:
    """Notes which optimizers are made, of which parameters, and which one is used."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.optimizers import Optimizers

        self._ctx = ctx
        self._live: Trained | None = None
        self._made = Optimizers()
        self.on_optimizing = self._made.add
        self.on_sharded = self._made.on_sharded

    def on_built(self, live: Trained) -> None:
        """Remember the training, whose optimizer may come later."""
        self._live = live

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where nothing was trained."""
        self._ctx.require_watch()
        optimizer: Any = self._live.optimizer if self._live is not None else None
        if optimizer is None:
            raise Skip("no optimizer made a step")
        own, old = self._made.replaced_by(optimizer)
        if own is None or old is None:
            return Facts(own.count if own is not None else 0)
        return Facts(own.count, old.count, own.location, old.location)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks whose optimizer took the place of one of fewer parameters."""
    bad = {rank: own for rank, own in sorted(facts.items()) if own.before}
    if not bad:
        return []
    own = bad[min(bad)]
    return [
        Finding(
            title=f"the optimizer trains {own.parameters} parameters, not {own.before}",
            message=f"an optimizer of {own.before} parameters was made at {own.replaced}, never made "
            f"a step, and gave way to one of {own.parameters}",
            fix="make the new one from the old one's parameters: [p for group in old.param_groups "
            'for p in group["params"]]',
            ranks=tuple(bad),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
            location=own.made,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many parameters are trained."""
    return f"{max(own.parameters for own in facts.values())} parameters in the optimizer"
