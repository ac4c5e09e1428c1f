"""A training that followed on the first one was not watched.

Why it matters
    One training is watched in a run: that of the first model that makes steps. Folds of a cross
    validation, a student after its teacher, a second phase with an optimizer of its own: what goes
    wrong in them is not in the report, whatever its verdict.

What to do
    Start the script so that it begins with the training in question, and watch that by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.words import counted

# An optimizer that takes turns with the watched one makes no more than twice as many steps in its
# last turn as in any turn before.
LEAST_TIMES = 2


class Facts(msgspec.Struct, frozen=True):
    """Steps of the watched training, and of others after its last one, from a line on.

    ``between`` is how many of others came between two of its own, at most.
    """

    steps: int
    after: int = 0
    between: int = 0
    location: Location | None = None


class Observer:
    """Counts the steps."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._steps = self._after = self._between = 0
        self._location: Location | None = None

    def on_step(self, step: int) -> None:
        """Count one of the training that is watched."""
        self._steps = step + 1
        self._between = max(self._between, self._after)
        self._after = 0

    def on_other_step(self) -> None:
        """Count one of another, and note where it is made."""
        from ddpcheck.watch.callsite import users_line

        if not self._after:
            self._location = users_line()
        self._after += 1

    def on_raise(self, _step: int, _error: BaseException) -> None:
        """Forget what came last: it may be a turn of two optimizers, broken off."""
        self._after = 0

    def facts(self) -> Facts:
        """Return the numbers; raises Skip where no training is watched."""
        self._ctx.require_watch()
        if not self._steps:
            raise Skip("no optimizer made a step")
        return Facts(self._steps, self._after, self._between, self._location)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a note for the ranks that made steps of another training after those of the first."""
    unseen = {
        rank: own
        for rank, own in sorted(facts.items())
        if own.after > max(1, LEAST_TIMES * own.between)
    }
    if not unseen:
        return []
    first = unseen[min(unseen)]
    return [
        Finding(
            title=f"only the first training was watched: {counted(first.steps, 'step')}",
            message=f"{counted(first.after, 'step')} of another optimizer came after it: of these "
            "nothing is told, neither good nor bad",
            fix="to have a later training watched, start the script so that it begins with it",
            ranks=tuple(unseen),
            severity=Severity.INFO,
            confidence=Confidence.HIGH,
            location=first.location,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many steps were watched."""
    return f"{min(own.steps for own in facts.values())} steps of one training were watched"
