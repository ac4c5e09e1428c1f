"""A model is given its own tensors as a saved state, and loads nothing.

Why it matters
    state_dict() returns the model's tensors, not copies. Best weights that are kept so follow the
    training, and going back to them changes nothing. A filter that keeps the names that fit, merged
    into the model's own state_dict(), loads nothing where no name fits, even with strict=True.

What to do
    Keep copy.deepcopy(model.state_dict()). Load what was saved itself, with strict=False, and look
    at the names that load_state_dict returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity

if TYPE_CHECKING:
    from ddpcheck.watch.meetings import Called

KEPT_COUNT = 64


class Load(msgspec.Struct, frozen=True):
    """A state of the model's own tensors: how many, and the steps since it was asked for."""

    model: str
    tensors: int
    steps: int
    location: Location | None = None


class Captured(NamedTuple):
    """When a module's state was asked for: after so many steps and collectives."""

    steps: int
    calls: int
    versions: tuple[int, ...]


class Facts(msgspec.Struct, frozen=True):
    """What a rank's models were given of their own."""

    loads: tuple[Load, ...]


class Observer:
    """Notes when a module's state is asked for, and when the module is given it."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._captured: WeakKeyDictionary[object, Captured] = WeakKeyDictionary()
        self._loads: list[Load] = []
        self._steps = 0
        self._calls = 0

    def on_step(self, _step: int) -> None:
        """Count it."""
        self._steps += 1

    def on_called(self, call: Called) -> None:
        """Count a collective: it fills tensors, whose versions do not tell."""
        self._calls += "barrier" not in call.name and "object" not in call.name

    def on_captured(self, module: object, versions: tuple[int, ...]) -> None:
        """Remember when a module's state was asked for."""
        self._captured[module] = Captured(self._steps, self._calls, versions)

    def on_reloading(
        self,
        module: object,
        given: tuple[str, ...],
        versions: tuple[int, ...],
        location: Location | None,
    ) -> None:
        """Note that a module is given its own tensors: unchanged, or as the training left them.

        Otherwise they may have been filled in place: from a distributed checkpoint, by a broadcast.
        """
        known = self._captured.get(module)
        if known is None or len(self._loads) == KEPT_COUNT:
            return
        since = self._steps - known.steps
        if since or (self._calls, versions) == known[1:]:
            self._loads.append(Load(type(module).__name__, len(given), since, location))

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return Facts(tuple(self._loads))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line that gives a model its own tensors."""
    found: dict[str, dict[int, Load]] = {}
    for rank, own in sorted(facts.items()):
        for load in own.loads:
            found.setdefault(f"{load.model} {load.location}", {}).setdefault(rank, load)
    return [_finding(ranks) for ranks in found.values()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return what did not happen, if it did not."""
    return "" if judge(facts) else "no model was given its own tensors"


def _finding(ranks: Mapping[int, Load]) -> Finding:
    load = ranks[min(ranks)]
    went_on = f", which {load.steps} steps have changed since" if load.steps else ""
    return Finding(
        title=f"load_state_dict gives the {load.model} its own tensors",
        message=f"all {load.tensors} tensors of the state are the {load.model}'s own{went_on}: "
        "nothing is loaded",
        fix="keep copy.deepcopy(model.state_dict())"
        if load.steps
        else "load the saved state itself with strict=False, and look at the names that it returns",
        ranks=tuple(ranks),
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        location=load.location,
    )
