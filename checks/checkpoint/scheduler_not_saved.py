"""A checkpoint has the optimizer's state, and not that of its learning rate scheduler.

Why it matters
    A training that goes on from such a checkpoint begins its schedule anew: with a warm-up in the
    middle of the training, or a rate that falls from the top once more. The loss jumps.

What to do
    Save scheduler.state_dict() beside optimizer.state_dict(), and load it after making the
    scheduler. Where the scheduler is made with last_epoch, nothing is lost: then this is no fault.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.saved import OPTIMIZER_KEYS, has_state

SCHEDULER_KEYS = frozenset({"last_epoch", "_step_count"})


class Facts(msgspec.Struct, frozen=True):
    """The scheduler that made steps, if any, and what was saved: states of optimizer, scheduler."""

    scheduler: str
    saved_optimizer: bool
    saved_scheduler: bool
    location: Location | None = None


class Observer:
    """Looks at what is saved, and which schedulers make steps."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._facts = Facts("", saved_optimizer=False, saved_scheduler=False)

    def on_scheduled(self, scheduler: object, _location: Location | None) -> None:
        """Note that a scheduler made a step."""
        self._facts = msgspec.structs.replace(self._facts, scheduler=type(scheduler).__name__)

    def on_saved(self, _path: str, value: object, location: Location | None) -> None:
        """Note whose states are in it."""
        if has_state(value, SCHEDULER_KEYS):
            self._facts = msgspec.structs.replace(self._facts, saved_scheduler=True)
        if has_state(value, OPTIMIZER_KEYS) and not self._facts.saved_optimizer:
            told = {"saved_optimizer": True, "location": location}
            self._facts = msgspec.structs.replace(self._facts, **told)

    def on_stored(self, value: object, location: Location | None) -> None:
        """Note the same of a distributed checkpoint."""
        self.on_saved("", value, location)

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return self._facts


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return an info where no rank saved the scheduler, in any file, but one the optimizer.

    Whether the script puts the schedule where it was by itself is not seen.
    """
    saved = [rank for rank, own in sorted(facts.items()) if own.saved_optimizer and own.scheduler]
    if not saved or any(own.saved_scheduler for own in facts.values()):
        return []
    first = facts[saved[0]]
    return [
        Finding(
            title="a checkpoint lacks the learning rate scheduler",
            message=f"the optimizer's state was saved, that of {first.scheduler} was not: unless the "
            "script gives it last_epoch, a training that goes on from it begins its schedule anew",
            fix="save scheduler.state_dict() beside optimizer.state_dict(), and load it",
            ranks=tuple(saved),
            severity=Severity.INFO,
            confidence=Confidence.MEDIUM,
            location=first.location,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return whether there was a scheduler."""
    return "" if any(own.scheduler for own in facts.values()) else "no scheduler made a step"
