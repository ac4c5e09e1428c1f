"""No step of an optimizer was seen, so nothing of the training was checked.

Why it matters
    A report without findings on a training that nobody saw is worth nothing. The script may have
    started ranks of its own, which ddpcheck does not follow, ended before its first step, or
    update its parameters without a torch.optim.Optimizer.

What to do
    Start the ranks from outside (torchrun ... -m ddpcheck watch SCRIPT, or ddpcheck watch SCRIPT)
    instead of with torch.multiprocessing.spawn; see what the script prints.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import spans

# Another rank's first step needs nobody else, as where gradients are not averaged yet.
LEAST_STEPS = 2


class Facts(msgspec.Struct, frozen=True):
    """How many steps were seen, whether the training raised, and whether the script has ended."""

    steps: int
    raised: bool = False
    ended: bool = False


class Observer:
    """Counts the steps."""

    def __init__(self, ctx: Context) -> None:
        del ctx
        self._facts = Facts(0)

    def on_step(self, step: int) -> None:
        """Count the step."""
        self._facts = Facts(step + 1)

    def on_raise(self, _step: int, _error: BaseException) -> None:
        """Note that something else has gone wrong."""
        self._facts = Facts(self._facts.steps, raised=True)

    def on_ended(self) -> None:
        """Note that no step will come any more."""
        self._facts = msgspec.structs.replace(self._facts, ended=True)

    def facts(self) -> Facts:
        """Return what was seen."""
        return self._facts


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks that made no step, unless one of them raised.

    Who stands still before its first step, as others do, is told of by where it stands.
    """
    others_step = max(own.steps for own in facts.values()) >= LEAST_STEPS
    none = [rank for rank, own in sorted(facts.items()) if not own.steps]
    idle = [rank for rank in none if facts[rank].ended or others_step]
    if not idle or any(own.raised for own in facts.values()):
        return []
    everywhere = len(idle) == len(facts)
    return [
        Finding(
            title="no step of an optimizer was seen"
            + ("" if everywhere else f" on {len(idle)} of {len(facts)} ranks"),
            message=f"rank {spans(idle)} made no step: nothing of the training was checked there",
            fix="start the ranks from outside (torchrun ... -m ddpcheck watch SCRIPT), if the "
            "script starts its own; see what it printed",
            ranks=tuple(idle),
            severity=Severity.WARNING,
            confidence=Confidence.HIGH if everywhere else Confidence.MEDIUM,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many steps were seen."""
    steps = sorted({own.steps for own in facts.values()})
    return f"{' or '.join(map(str, steps))} steps seen on each rank"
