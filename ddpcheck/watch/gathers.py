"""Follows what goes into a gather between a forward pass and its backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from ddpcheck.finding import Location
from ddpcheck.measures.gathers import Gather
from ddpcheck.watch.ancestry import Ancestry
from ddpcheck.watch.constants import used_as_constants

if TYPE_CHECKING:
    from torch import Tensor

    from ddpcheck.target.live import Trained

# Of each line, so many gathers of a step are followed, in so many steps: a script does there what it
# always does.
KEPT_COUNT = 8

Key: TypeAlias = tuple[Location | None, int]


class Gathers:
    """A part of an observer; ``most`` is how many ranks there are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.live: Trained | None = None
        self._names: dict[int, str] = {}
        self._is_forward = False
        self._gathers: dict[Key, Gather] = {}
        self._waiting: dict[Key, tuple[Tensor, Ancestry]] = {}
        self._followed: dict[Key, tuple[tuple[int, ...], Ancestry]] = {}
        # Whether a loss used the copy: asked of the device at the end alone.
        self._constants: dict[Key, list[Tensor]] = {}

    def on_built(self, live: Trained) -> None:
        """Remember the model, and its parameters by name."""
        self.live = live
        self._names = {id(each): name for name, each in live.module.named_parameters()}

    def on_inputs(self, _step: int, _inputs: object) -> None:
        """Note that a forward pass of training has begun."""
        self._is_forward = True

    def on_loss(self, _step: int, loss: Tensor) -> None:
        """Note that what is gathered from here on is no part of this loss; what was may be."""
        self._is_forward = False
        meant = {
            key: own for key, (own, ancestry) in self._waiting.items() if not ancestry.wants_none
        }
        used = used_as_constants(loss, list(meant.values()), self._most) if meant else []
        for key, is_used in zip(meant, used, strict=True):
            self._constants.setdefault(key, []).append(is_used)
        self._followed |= {k: (tuple(t.shape), a) for k, (t, a) in self._waiting.items()}
        self._waiting = {}

    def on_gathered(self, tensor: Tensor, location: Location | None) -> None:
        """Follow the tensor's history."""
        if self.live is None or not self._is_forward or not self.live.module.training:
            return
        number = sum(line == location for line, _ in (*self._waiting, *self._followed))
        known = self._gathers.setdefault((location, number), Gather(location, number))
        if number < KEPT_COUNT and known.followed < KEPT_COUNT:
            self._waiting[location, number] = (tensor.detach(), Ancestry(tensor))

    def on_gradients(self, _step: int) -> None:
        """Look where gradients have come to."""
        for key, (shape, ancestry) in self._followed.items():
            known = self._gathers[key]
            parameter = ancestry.parameter_without_gradient()
            if ancestry.wants_none and parameter not in self._names:
                parameter = None  # a teacher's, say
            cut = known.cut + (parameter is not None)
            name = self._names.get(parameter or 0, "") or known.parameter
            self._gathers[key] = Gather(*key, known.followed + 1, cut, shape, name)
        self._followed, self._waiting = {}, {}  # no backward pass came after what waits

    def seen(self) -> tuple[Gather, ...]:
        """Return those that were followed."""
        used = {key: sum(map(bool, each)) for key, each in self._constants.items()}
        followed = {key: each for key, each in self._gathers.items() if each.followed}
        told = (replace(each, constant=used.get(key, 0)) for key, each in followed.items())
        return tuple(told)
