"""The optimizers that a script makes, and which of them took another one's place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch

from ddpcheck.finding import Location
from ddpcheck.watch.callsite import is_inside

KEPT_COUNT = 64
# Where each was made: it may be before anybody listens.
MADE_AT: WeakKeyDictionary[Any, Location | None] = WeakKeyDictionary()


@dataclass
class Made:
    """One optimizer: of what, and where it was made.

    Its parameters are those that are trained. ``covers`` are those that were made before it, of
    some of its parameters, or of a model that was sharded between them.
    """

    optimizer: ref[Any]
    count: int
    location: Location | None
    parameters: list[ref[torch.Tensor]]
    covers: list[Made]
    shards_before: int


class Optimizers:
    """Notes each optimizer, without keeping it or its parameters alive."""

    def __init__(self) -> None:
        self._made: list[Made] = []
        self._shards = 0

    def on_sharded(self, _module: object, _mesh: object, _location: Location | None) -> None:
        """Note that parameters have given way to others."""
        self._shards += 1

    def add(self, optimizer: Any, location: Location | None) -> None:
        """Note one that was made, and which ones before it have a part of its parameters."""
        if len(self._made) == KEPT_COUNT:
            return
        own = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        made = Made(ref(optimizer), len(own), location, [ref(p) for p in own], [], self._shards)
        made.covers = [old for old in self._made if _covers(made, old)]
        self._made.append(made)

    def replaced_by(self, optimizer: Any) -> tuple[Made | None, Made | None]:
        """Return what is known of it, and of the one of fewer parameters that it replaced, if any.

        One that is still there may be for another time of the training.
        """
        own = next((each for each in self._made if each.optimizer() is optimizer), None)
        gone = [old for old in own.covers if old.optimizer() is None] if own is not None else []
        return own, max(gone, key=lambda old: old.count, default=None)


def _covers(new: Made, old: Made) -> bool:
    if not 0 < old.count < new.count:
        return False
    left = _ids(old.parameters)
    if left & _ids(new.parameters):
        return left <= _ids(new.parameters)
    return new.shards_before > old.shards_before


def _ids(parameters: Iterable[ref[torch.Tensor]]) -> set[int]:
    return {id(each) for known in parameters if (each := known()) is not None}


def only_makes_state() -> bool:
    """Return whether torch has an optimizer step with a rate of 0, to be given a state to load into.

    Source: torch.distributed.checkpoint.state_dict.
    """
    return is_inside("_init_optim_state", "torch")


def telling_once(closure: Callable[[], Any], tell: Callable[[], None]) -> Callable[[], Any]:
    """Return an optimizer's closure so that it tells when it has made gradients for the first time."""
    has_told = False

    def told() -> Any:
        nonlocal has_told
        loss = closure()
        if not has_told:
            has_told = True
            tell()
        return loss

    return told
