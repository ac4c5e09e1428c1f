"""Parameters of which several ranks may hold copies: as they start, their gradients, as they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpcheck.check import Skip
from ddpcheck.measures.copies import Copies
from ddpcheck.measures.sketch import Sketch
from ddpcheck.watch.averaging import Averaging
from ddpcheck.watch.meshes import (
    Pick,
    Ranks,
    constants_of,
    holders_of,
    names_of,
    ranks_of_meshes,
    sketched_by_holders,
)
from ddpcheck.watch.replicas import sketched_plain

if TYPE_CHECKING:
    from torch import nn

    from ddpcheck.target.live import Trained

GRADIENT_STEPS = 2
Sketches = dict[Ranks, dict[str, Sketch]]


class HeldCopies:
    """A part of an observer: sketches them before and after, and their first gradients.

    ``joint`` are ranks that share a forward or backward pass by the script's own collectives,
    ``constants`` the plain parameters, which are under (), that had one value all over.
    ``averaging`` has to hear of each event before it.
    """

    def __init__(self, averaging: Averaging) -> None:
        self._averaging = averaging
        self.module: nn.Module | None = None
        self.joint: set[Ranks] = set()
        self.constants: list[str] = []
        self.names: dict[str, str] = {}
        self.steps = 0
        self._holders: dict[str, Ranks] = {}
        self._meshes: list[Ranks] = []
        self._before: Sketches = {}
        self._gradients: list[Sketches] = []

    @property
    def meshes(self) -> list[Ranks]:
        """Return the ranks of meshes that DTensors are spread over, and not by FSDP."""
        return [] if self._averaging.ranks else self._meshes

    def on_joint(self, ranks: Ranks) -> None:
        """Remember who shares a backward pass."""
        self.joint.add(ranks)

    def on_spread(self, ranks: Ranks) -> None:
        """Remember who shares a forward pass: that its backward half is missing is the fault."""
        self.joint.add(ranks)

    def on_built(self, live: Trained) -> None:
        """Sketch what it starts from; raises Skip where no rank may hold a copy of another's."""
        if live.ddp is not None:
            raise Skip("DDP keeps the parameters alike: gradients/replicas-differ looks at them")
        self.module = live.module
        self._holders, self._meshes = holders_of(live.module), ranks_of_meshes(live.module)
        self._before = self._sketch(lambda parameter: parameter)
        if not self._before:
            raise Skip("no parameter is held by several ranks that work on one model")
        self.names = names_of(live.module)
        self.constants = constants_of(live.module) if () in self._before else []
        self.on_gradients(0)  # the optimizer is about to make its first step

    def on_gradients(self, step: int) -> None:
        """Sketch what the optimizer is about to use."""
        if step < GRADIENT_STEPS and self.module is not None:
            self._gradients.append(self._sketch(lambda parameter: parameter.grad))

    def on_step(self, step: int) -> None:
        """Count the step."""
        self.steps = step + 1

    def told(self) -> list[Copies]:
        """Return the sketches, with those of the parameters as they are now."""
        after = self._sketch(lambda parameter: parameter)
        return [
            Copies(ranks, own, [e.get(ranks, {}) for e in self._gradients], after.get(ranks, {}))
            for ranks, own in self._before.items()
        ]

    def _sketch(self, pick: Pick) -> Sketches:
        if self.module is None:
            return {}
        found = sketched_by_holders(self.module, self._holders, pick)
        # Plain parameters of what FSDP shards are those that it was told to ignore.
        if (self.joint or self.meshes) and not self._averaging.ranks:
            found |= {(): plain} if (plain := sketched_plain(self.module, pick)) else {}
        return found
