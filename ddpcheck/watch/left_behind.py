"""Parameters that gave way to others when their module was sharded, and that an optimizer kept."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakSet, ref

import torch
from torch import nn
from torch.optim import Optimizer

from ddpcheck.finding import Location
from ddpcheck.watch.trained import parameters_of


class Whole(NamedTuple):
    """A parameter before its module was sharded, and what the module calls it."""

    parameter: ref[torch.Tensor]
    module: ref[nn.Module]
    name: str
    location: Location | None

    def successor(self) -> torch.Tensor | None:
        """Return what the module has in its place, None while it has itself, or nothing."""
        module = self.module()
        if module is None:
            return None
        with suppress(AttributeError):  # the script may have taken the part away
            now = module.get_parameter(self.name)
            return None if now is self.parameter() else now
        return None


class LeftBehind:
    """A part of an observer: knows what was there before each fully_shard, and all optimizers."""

    def __init__(self) -> None:
        self._wholes: list[Whole] = []
        self._optimizers: WeakSet[Optimizer] = WeakSet()
        self._left: dict[str, Location | None] | None = None

    def on_sharding(self, module: nn.Module, location: Location | None) -> None:
        """Note the parameters that are about to give way, without keeping them alive."""
        for name, parameter in module.named_parameters():
            if not hasattr(parameter, "placements"):
                self._wholes.append(Whole(ref(parameter), ref(module), name, location))

    def on_optimizing(self, optimizer: Any, _location: Location | None) -> None:
        """Note an optimizer: what one of them has need not be another's."""
        self._optimizers.add(optimizer)

    def look(self, optimizer: Optimizer) -> None:
        """Look for what the optimizer has of them, before a step."""
        now = self._left_in(optimizer)
        # What is told of and moves later was put right by the script.
        known = now if self._left is None else self._left
        self._left = {name: where for name, where in known.items() if name in now}

    @property
    def left(self) -> dict[str, Location | None]:
        """Return what the optimizer had of them each time, by name, and where it was sharded.

        It got no gradient: what came in its place did, and is in no optimizer.
        """
        return self._left or {}

    def _left_in(self, optimizer: Optimizer) -> dict[str, Location | None]:
        self._wholes = [each for each in self._wholes if each.parameter() is not None]
        if not self._wholes:  # the optimizer was made of what is sharded
            return {}
        own = {id(each) for each in parameters_of(optimizer)}
        left = [each for each in self._wholes if _is_idle(each, own)]
        every = (optimizer, *self._optimizers)
        moved = {id(parameter) for each in every for parameter in parameters_of(each)}
        return {each.name: each.location for each in left if id(each.successor()) not in moved}


def _is_idle(whole: Whole, own: set[int]) -> bool:
    parameter = whole.parameter()
    if parameter is None or parameter.grad is not None or id(parameter) not in own:
        return False
    now = whole.successor()
    return now is not None and now.grad is not None
