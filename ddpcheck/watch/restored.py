"""What was read of distributed checkpoints, and whether any model has it."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from weakref import ref

import torch
from torch import nn

from ddpcheck.finding import Location
from ddpcheck.measures.saved import DEPTH_COUNT, OPTIMIZER_KEYS, has_state
from ddpcheck.watch.states import local_of, version_of

# Of each weight so many elements tell whether a parameter has its values.
KEPT_ELEMENTS = 16
KEPT_WEIGHTS = 256


class Weight:
    """A weight as it was read: where its values are, how they begin, and whether anybody has it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = ref(tensor)
        here = local_of(tensor)
        self.place = here.untyped_storage().data_ptr()
        self.beginning = _beginning(here)

    @property
    def is_kept(self) -> bool:
        """Return whether the script still has it, or else its values where it was read to."""
        return self._tensor() is not None


class Restored:
    """A part of an observer: knows of what was read since it was asked last.

    ``load`` has everything with a state_dict of its own load what was read: nothing is lost there.
    """

    def __init__(self) -> None:
        self._weights: list[Weight] = []
        self._before: dict[int, Any] = {}
        self._returned: ref[nn.Module] | None = None
        self.location: Location | None = None

    def on_restored(self, value: Any, location: Location | None) -> None:
        """Remember the weights, unless what they are of has loaded them by now."""
        if isinstance(value, Mapping) and not any(map(_loads_itself, value.values())):
            self._weights = [Weight(each) for each in _weights_in(value)][:KEPT_WEIGHTS]
            self._before = _condition_of(_parameters())
            self.location = location

    def on_returning(self, module: nn.Module) -> None:
        """Note a model that is given its own tensors, which nobody has changed since.

        What is whole is copied into the parts of a sharded model before it is given those.
        """
        now = _condition_of(module.parameters())
        is_same = all(self._before.get(each) == now[each] for each in now)
        self._returned = ref(module) if is_same else None

    def on_loaded(self, module: nn.Module, *_told: Any) -> None:
        """Forget it: a model was given something, unless it was only what it had."""
        returned, self._returned = self._returned, None
        if returned is None or returned() is not module:
            self._weights = []

    def on_reloading(self, *_told: Any) -> None:
        """Forget it: a model was given what was read into its own state."""
        self._weights = []

    def lost(self) -> int:
        """Return how many weights were read that nobody has any more, nor any model; forget them."""
        weights, self._weights, self._before = self._weights, [], {}
        if not weights or any(each.is_kept for each in weights):
            return 0
        parameters = [local_of(each) for each in _parameters()]
        places = {each.untyped_storage().data_ptr() for each in parameters}
        if any(each.place in places for each in weights):
            return 0
        beginnings = {_beginning(each) for each in parameters}
        # Zeros are of all kinds of parameters.
        telling = [each for each in weights if any(each.beginning[1])]
        return 0 if any(each.beginning in beginnings for each in telling) else len(telling)


def _weights_in(value: Any, depth: int = DEPTH_COUNT) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.ndim and value.is_floating_point() and not value.is_meta:
            yield value
    elif isinstance(value, Mapping) and depth and not has_state(value, OPTIMIZER_KEYS, depth=0):
        for each in value.values():
            yield from _weights_in(each, depth - 1)


def _loads_itself(value: Any) -> bool:
    return hasattr(value, "load_state_dict")


def _parameters() -> Iterator[torch.Tensor]:
    # A type cannot lie about itself, as an object that stands for another may.
    modules = [each for each in gc.get_objects() if issubclass(type(each), nn.Module)]
    for module in modules:
        own = module.__dict__.get("_parameters", {}).values()
        yield from (each for each in own if each is not None and not each.is_meta)


def _condition_of(parameters: Iterable[torch.Tensor]) -> dict[int, Any]:
    """Return of each what differs after it has been changed: not all ways are counted."""
    return {id(each): (version_of(each), _beginning(local_of(each))) for each in parameters}


def _beginning(tensor: torch.Tensor) -> tuple[torch.Size, tuple[float, ...]]:
    """Return its shape and first elements."""
    return tensor.shape, tuple(tensor.reshape(-1)[:KEPT_ELEMENTS].float().tolist())
