"""A checkpoint with the optimizer's state lacks that of the gradient scaler.

Why it matters
    A GradScaler finds its scale over thousands of steps. A training that goes on from a checkpoint
    without it starts again at 65536: gradients overflow, steps are skipped, and the loss jumps.

What to do
    Add scaler.state_dict() to what is saved beside optimizer.state_dict(), and load both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity

# How deep in what is saved a state is looked for: {"optimizer": ...}, or a list of them.
DEPTH_COUNT = 3
LONGEST_COUNT = 100
OPTIMIZER_KEYS = frozenset({"state", "param_groups"})
SCALER_KEYS = frozenset({"scale", "growth_factor", "backoff_factor", "growth_interval"})


class Facts(msgspec.Struct, frozen=True):
    """Whether a scaler scaled losses, and what was saved: an optimizer's state, a scaler's."""

    scaled: bool
    saved_optimizer: bool
    saved_scaler: bool
    location: Location | None = None


class Observer:
    """Looks at what torch.save is given, and whether losses come from a scaler."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._facts = Facts(scaled=False, saved_optimizer=False, saved_scaler=False)

    def on_scaled(self) -> None:
        """Note that a GradScaler that is enabled took a step."""
        self._facts = msgspec.structs.replace(self._facts, scaled=True)

    def on_saved(self, _path: str, value: object, location: Location | None) -> None:
        """Note whose states are in it."""
        if _has(value, SCALER_KEYS):
            self._facts = msgspec.structs.replace(self._facts, saved_scaler=True)
        if _has(value, OPTIMIZER_KEYS) and not self._facts.saved_optimizer:
            self._facts = msgspec.structs.replace(
                self._facts, saved_optimizer=True, location=location
            )

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


def _has(value: Any, keys: frozenset[str], depth: int = DEPTH_COUNT) -> bool:
    """Return whether a dictionary with these keys is in the value, or is it."""
    if isinstance(value, Mapping):
        inner = list(value.values())
        found = keys <= value.keys()
    elif isinstance(value, (list, tuple)) and len(value) <= LONGEST_COUNT:
        inner, found = list(value), False
    else:
        return False
    return found or (depth > 0 and any(_has(each, keys, depth - 1) for each in inner))
