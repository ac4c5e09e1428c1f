"""The learning rate's schedule runs several times as fast as the training.

Why it matters
    A scheduler that makes a step for each rank, as accelerate's does after prepare(), or one for
    each batch while gradients are accumulated, is at the end of its plan after a part of the
    training: the rest goes on at the last learning rate, often 0, and nothing says so.

What to do
    Plan the schedule in the steps that it really makes: multiply its total by the number of ranks,
    or leave it out of accelerator.prepare(). With accumulation, call scheduler.step() only where
    optimizer.step() is called, or plan it in batches.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.schedule import (
    Pace,
    ended_early,
    is_per_batch,
    is_per_rank,
    is_planned_in_optimizer_steps,
    ran_its_plan,
)


class Facts(msgspec.Struct, frozen=True):
    """The pace of each scheduler of the optimizer that was watched, and the number of ranks.

    ``ended`` is whether the script came to its end.
    """

    world_size: int
    paces: tuple[Pace, ...]
    ended: bool = False

    def is_told(self, pace: Pace) -> bool:
        """Return whether a scheduler makes several steps each time, and not as it was planned to."""
        is_fast = is_per_rank(pace, self.world_size) or is_per_batch(pace)
        return is_fast and not (self.ended and ran_its_plan(pace))


class Observer:
    """Counts the schedulers' steps and the backward passes between the optimizer's steps."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.schedule_counts import ScheduleCounts

        self._ctx = ctx
        self._counts = ScheduleCounts()
        self._ended = False
        self.on_built = self._counts.on_built
        self.on_loss = self._counts.on_loss
        self.on_scheduled = self._counts.on_scheduled
        self.on_gradients = self._counts.on_gradients
        self.on_step = self._counts.on_step

    def facts(self) -> Facts:
        """Return the paces; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return Facts(self._ctx.world_size, self._counts.seen(), self._ended)

    def on_ended(self) -> None:
        """Note that no step will come any more."""
        self._ended = True


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each scheduler that makes a step for each rank, or each batch.

    Examples of accelerate's plan for that, and so may a loop that accumulates: it is a fault where
    the plan says so, or the training goes on after the schedule's end.
    """
    found: dict[tuple[str, Location | None], dict[int, Pace]] = {}
    for rank, own in sorted(facts.items()):
        for pace in own.paces:
            if own.is_told(pace):
                found.setdefault((pace.scheduler, pace.location), {}).setdefault(rank, pace)
    return [_finding(ranks, facts[min(ranks)].world_size) for ranks in found.values()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many schedulers were followed."""
    count = max(len(own.paces) for own in facts.values())
    return f"{count} schedulers of the optimizer followed"


def _finding(ranks: Mapping[int, Pace], world_size: int) -> Finding:
    pace = ranks[min(ranks)]
    early, planned = ended_early(pace), is_planned_in_optimizer_steps(pace)
    often = f"{pace.fewest}" if pace.fewest == pace.most else f"{pace.fewest} to {pace.most}"
    causes = {"rank": is_per_rank(pace, world_size), "backward pass": is_per_batch(pace)}
    of_what = " or ".join(name for name, holds in causes.items() if holds)
    return Finding(
        title=f"{pace.scheduler} makes {often} steps for each of the optimizer's",
        message=f"{often} steps, one for each {of_what}, came after each of {pace.steps} steps of the "
        f"optimizer; {_plan(pace, early=early, planned=planned)}",
        fix="multiply its total by that number, or let it make one step for each of the optimizer's"
        + ("; with accelerate, leave it out of prepare()" if causes["rank"] else ""),
        ranks=tuple(ranks),
        severity=Severity.WARNING if early or planned else Severity.INFO,
        confidence=Confidence.HIGH if early else Confidence.MEDIUM,
        location=pace.location,
    )


def _plan(pace: Pace, *, early: bool, planned: bool) -> str:
    total = f"its plan of {pace.planned}" if pace.planned else "its plan"
    if early:
        return f"the optimizer made {pace.idle} of {pace.total} after {total} was at its end"
    if planned:
        return f"{total} is in the optimizer's steps: this rank has {pace.batches} batches an epoch"
    return f"that is right where {total} is in steps of its own"
