"""A distributed checkpoint in the middle of a training has the model, and not its optimizer.

Why it matters
    Adam and momentum know the gradients of the steps before. A training that goes on from weights
    alone begins without them: its first steps are too large, and the loss jumps.

What to do
    Save both: get_state_dict(model, optimizer), and set_state_dict after dcp.load. Where the
    weights are to be looked at, and nothing goes on from them, this is no fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.saved import OPTIMIZER_KEYS, has_state, has_weights
from ddpcheck.measures.words import counted

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained


class Facts(msgspec.Struct, frozen=True):
    """Whether the optimizer ``remembers`` anything, and what was saved: its state, or weights alone.

    ``stored`` counts distributed checkpoints after which the training went on.
    """

    remembers: bool
    stored: int
    saved_optimizer: bool
    location: Location | None = None


class Observer:
    """Looks at what is saved, and whether steps come after it."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._live: Trained | None = None
        self._facts = Facts(remembers=False, stored=0, saved_optimizer=False)
        self._waiting: Location | None = None
        self._waits = False

    def on_built(self, live: Trained) -> None:
        """Remember whose optimizer it is."""
        self._live = live

    def on_saved(self, _path: str, value: object, _location: Location | None) -> None:
        """Note an optimizer's state, in whatever file."""
        if has_state(value, OPTIMIZER_KEYS):
            self._facts = msgspec.structs.replace(self._facts, saved_optimizer=True)

    def on_stored(self, value: object, location: Location | None) -> None:
        """Note weights that are stored once training has begun."""
        self.on_saved("", value, location)
        if self._live is not None and has_weights(value):
            self._waits, self._waiting = True, location

    def on_step(self, _step: int) -> None:
        """Count the checkpoint before it."""
        if self._waits and self._live is not None:
            self._waits = False
            self._facts = msgspec.structs.replace(
                self._facts,
                stored=self._facts.stored + 1,
                remembers=_remembers(self._live),
                location=self._facts.location or self._waiting,
            )

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return self._facts


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return an info where no rank saved the optimizer, in any file.

    Whether anybody goes on from such a checkpoint is not seen.
    """
    stored = [rank for rank, own in sorted(facts.items()) if own.stored and own.remembers]
    if not stored or any(own.saved_optimizer for own in facts.values()):
        return []
    first = facts[stored[0]]
    return [
        Finding(
            title="a distributed checkpoint lacks the optimizer",
            message=f"{counted(first.stored, 'checkpoint')} of weights alone: the optimizer's state was "
            "saved nowhere, and a training that goes on from them begins without it",
            fix="save both: get_state_dict(model, optimizer), and set_state_dict after dcp.load",
            ranks=tuple(stored),
            severity=Severity.INFO,
            confidence=Confidence.MEDIUM,
            location=first.location,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many checkpoints were stored."""
    return f"{max(own.stored for own in facts.values())} distributed checkpoints while it trained"


def _remembers(live: Trained) -> bool:
    """Return whether the optimizer has more than a count for a parameter."""
    states = live.optimizer.state.values() if live.optimizer is not None else ()
    return any(getattr(each, "ndim", 0) for state in states for each in state.values())
