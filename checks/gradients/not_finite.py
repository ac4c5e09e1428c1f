"""The loss is not a number on some ranks.

Why it matters
    One rank's infinity or NaN goes through the all-reduce into every rank's gradient: after
    one step all parameters are NaN, and nothing tells which rank's data it was.

What to do
    Look at the named ranks' batches: empty, unlabelled, or out of range. Skipping the batch
    on that rank alone would leave the others waiting: agree on it first, by an all-reduce.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding, Location, Severity

if TYPE_CHECKING:
    import torch


# Enough for the steps that are watched; more would only take memory.
KEPT_LOSSES_COUNT = 4096
FIX = "look at the named ranks' batch of that step; agree on a skip on all ranks"
FIX_START = (
    "see what the model starts from: parameters that to_empty() has made, or that were on the meta "
    "device, have no values until they are initialized; then at the loss itself, and at the data"
)


class Facts(msgspec.Struct, frozen=True):
    """How many losses there were; ``first_bad`` is the first step without a finite one.

    ``recovers`` is whether the last one was finite: no step can have been made of the bad ones as they
    were, or the parameters were no numbers, either. ``location`` is where backward was called first.
    """

    steps: int
    first_bad: int | None = None
    recovers: bool = False
    location: Location | None = None


class Observer:
    """Looks at the loss of each step."""

    def __init__(self, ctx: Context) -> None:
        del ctx
        self._steps = 0
        self._location: Location | None = None
        self._fine: list[tuple[int, torch.Tensor]] = []

    def on_loss(self, step: int, loss: torch.Tensor) -> None:
        """Note the first step whose loss is not finite."""
        if loss.is_meta:
            return  # it has no value: devices/wrong-device says so
        from ddpcheck.watch.callsite import users_line

        self._steps = step + 1
        self._location = self._location or users_line()
        if len(self._fine) < KEPT_LOSSES_COUNT:
            # Its value is asked for at the end: a GPU would have to be waited for.
            local = getattr(loss, "to_local", None)
            own = local() if local is not None else loss
            self._fine.append((step, own.detach().isfinite().all()))

    def facts(self) -> Facts:
        """Return what was seen; raises Skip when there was no loss."""
        if not self._steps:
            raise Skip("no loss was computed")
        first_bad = next((step for step, fine in self._fine if not fine), None)
        recovers = first_bad is not None and bool(self._fine[-1][1])
        return Facts(self._steps, first_bad, recovers, self._location)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding that names the ranks that had no finite loss first.

    Ranks that follow a step later have it from them, through the all-reduce.
    """
    bad = {rank: fact.first_bad for rank, fact in facts.items() if fact.first_bad is not None}
    if not bad:
        return []
    first = min(bad.values())
    ranks = tuple(sorted(rank for rank, step in bad.items() if step == first))
    left_out = all(facts[rank].recovers for rank in bad)
    return [
        Finding(
            title="the loss is not a number" + (" in some steps" if left_out else ""),
            message=f"in step {first} on {len(ranks)} of {len(facts)} ranks"
            + ("; it is one again later on" if left_out else ""),
            severity=Severity.INFO if left_out else Severity.ERROR,
            fix=FIX_START if first == 0 and len(ranks) == len(facts) else FIX,
            ranks=ranks,
            location=facts[ranks[0]].location,
            evidence={"first_bad": {str(rank): step for rank, step in sorted(bad.items())}},
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many steps were looked at."""
    if any(fact.first_bad is not None for fact in facts.values()):
        return ""
    return f"{min(fact.steps for fact in facts.values())} steps with a finite loss on every rank"
