"""A checkpoint with the optimizer's state lacks that of the gradient scaler.

Why it matters
    A GradScaler finds its scale over thousands of steps. A training that goes on from a checkpoint
    without it starts again at 65536: gradients overflow, steps are skipped, and the loss jumps.

What to do
    Add scaler.state_dict() to what is saved beside optimizer.state_dict(), and load both.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.saved import OPTIMIZER_KEYS, has_state

SCALER_KEYS = frozenset({"scale", "growth_factor", "backoff_factor", "growth_interval"})


class Facts(msgspec.Struct, frozen=True):
    """Whether a scaler scaled losses, and what was saved: an optimizer's state, a scaler's."""

    scaled: bool
    saved_optimizer: bool
    saved_scaler: bool
    location: Location | None = None


class Observer:
    """Looks at what is saved, and whether losses come from a scaler."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._facts = Facts(scaled=False, saved_optimizer=False, saved_scaler=False)

    def on_scaled(self) -> None:
        """Note that a GradScaler that is enabled took a step."""
        self._facts = msgspec.structs.replace(self._facts, scaled=True)

    def on_saved(self, _path: str, value: object, location: Location | None) -> None:
        """Note whose states are in it."""
        if has_state(value, SCALER_KEYS):
            self._facts = msgspec.structs.replace(self._facts, saved_scaler=True)
        if has_state(value, OPTIMIZER_KEYS) and not self._facts.saved_optimizer:
            self._facts = msgspec.structs.replace(
                self._facts, saved_optimizer=True, location=location
            )

    def on_stored(self, value: object, location: Location | None) -> None:
        """Note the same of a distributed checkpoint."""
        self.on_saved("", value, location)

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return self._facts


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding where no rank saved the scaler, in any file, but one the optimizer."""
    saved = [rank for rank, own in sorted(facts.items()) if own.saved_optimizer and own.scaled]
    if not saved or any(own.saved_scaler for own in facts.values()):
        return []
    return [
        Finding(
            title="a checkpoint lacks the gradient scaler",
            message="the optimizer's state was saved, the scaler's was not: a training that goes "
            "on from it starts with another scale",
            fix="save scaler.state_dict() beside optimizer.state_dict(), and load it",
            ranks=tuple(saved),
            severity=Severity.WARNING,
            confidence=Confidence.HIGH,
            location=facts[saved[0]].location,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return whether there was a scaler."""
    return "" if any(own.scaled for own in facts.values()) else "no GradScaler took a step"
