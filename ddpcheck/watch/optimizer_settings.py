"""What an optimizer steps with: its learning rate and the like, and where they were set."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import TYPE_CHECKING, Any
from weakref import ref

from ddpcheck.measures.deeds import Deed, Kind
from ddpcheck.watch.optimizers import MADE_AT

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from ddpcheck.finding import Location

# So many are looked at in each step, and so many changes of one are kept.
KEPT_GROUPS = 32
KEPT_CHANGES = 64
KEPT_STATES = 64
# These choose how a step is computed, and not which.
HOW = frozenset({"foreach", "fused", "capturable", "differentiable"})


class OptimizerSettings:
    """A part of an observer: notes each setting, as of the step that is first made with it."""

    def __init__(self) -> None:
        self._resumed: list[tuple[ref[Optimizer], Deed]] = []
        self._scheduled: Location | None = None
        self._now: dict[str, Any] = {}
        self._kept: list[Deed] = []
        self._step = 0

    def on_scheduled(self, _scheduler: object, location: Location | None) -> None:
        """Note who may change it next."""
        self._scheduled = location

    on_measured = on_scheduled

    def on_resumed(self, optimizer: Optimizer, location: Location | None) -> None:
        """Note that it was given a state."""
        if len(self._resumed) < KEPT_STATES:
            self._resumed.append((ref(optimizer), Deed(Kind.RESUMED, self._step, "", location)))

    def stepped(self, optimizer: Any, step: int) -> None:
        """Note what has changed since the step before."""
        self._step = step + 1
        now = dict(_settings_of(optimizer))
        changed = {name: each for name, each in now.items() if self._now.get(name) != each}
        if changed and len(self._kept) < KEPT_CHANGES:
            location, was_made = self._scheduled or MADE_AT.get(optimizer), self._scheduled is None
            self._kept += [
                Deed(Kind.SET, step, name, location, _told(value), was_made)
                for name, value in changed.items()
            ]
        self._now, self._scheduled = now, None

    def kept_of(self, optimizer: Any) -> tuple[Deed, ...]:
        """Return what was noted, and which states this one was given."""
        return (*self._kept, *(deed for whose, deed in self._resumed if whose() is optimizer))


def _settings_of(optimizer: Any) -> Iterator[tuple[str, Any]]:
    """Yield what decides about a step, by name; tensors, as on a GPU, are not waited for."""
    groups = optimizer.param_groups[:KEPT_GROUPS]
    for number, group in enumerate(groups):
        for name in (each for each in optimizer.defaults if each not in HOW):
            value = group.get(name)
            if isinstance(value, (Real, tuple)):
                yield f"{name}{f' of group {number}' * (len(groups) > 1)}", value


def _told(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
