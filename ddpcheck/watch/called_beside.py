"""Models that a script calls and does not train: a teacher, an average of weights, a frozen encoder."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
from torch import nn

from ddpcheck.finding import Location
from ddpcheck.watch.batchnorm import Look
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.meshes import roots
from ddpcheck.watch.optimizers import MADE_AT
from ddpcheck.watch.replicas import WHOLE, Norms, group_of
from ddpcheck.watch.trained import parameters_of

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

    from ddpcheck.target.live import Trained

KEPT_MODELS = 8


class _Called:
    """One of them, which it does not keep alive."""

    def __init__(self, module: nn.Module, trained: Sequence[torch.Size]) -> None:
        self.name = type(module).__name__
        self.is_copy = [each.shape for each in module.parameters()] == list(trained)
        self.calls = 0
        self.location: Location | None = None
        self._module = ref(module)
        self.norms = Norms(list(module.parameters()))
        self.hook: RemovableHandle = module.register_forward_pre_hook(Look(self._look))

    def note(self) -> None:
        """Keep what tells whether ranks are alike, as long as the script has the model."""
        if self._module() is None:
            self.norms.release()
        self.norms.note()

    def _look(self, *_given: Any) -> None:
        self.calls += 1
        if self.calls == 1:
            self.location = users_line()


class CalledBeside:
    """A part of an observer: follows them from the first forward pass through DDP on."""

    def __init__(self) -> None:
        self._models: list[_Called] = []
        # At the end of the script there may be no group.
        self.group: tuple[int, ...] = ()

    def on_built(self, live: Trained) -> None:
        """Look for them: a search through all objects, once."""
        if live.ddp is None:
            return
        self.group = group_of(live.ddp)
        trained = [each for optimizer in MADE_AT for each in parameters_of(optimizer)]
        wrapped = [p for module in (live.model, *live.beside) for p in module.parameters()]
        known = frozenset(map(id, (*trained, *wrapped)))
        shapes = [each.shape for each in live.module.parameters()]
        with suppress(Exception):  # whatever a module of the script's may do there
            found = [each for root in roots(live.model) for each in _apart(root, known)]
            self._models = [
                _Called(each, shapes) for each in sorted(found, key=_kind)[:KEPT_MODELS]
            ]

    def on_step(self, _step: int) -> None:
        """Keep how they are after the step: they may be changed after it, rank by rank."""
        for each in self._models:
            each.note()

    def close(self) -> list[tuple[str, int, tuple[str, ...], Location | None, bool]]:
        """Take the hooks off and return what was called.

        Its name, how often, digests of its norms, where, and whether it has the trained model's shapes.
        """
        for each in self._models:
            each.hook.remove()
        called = [each for each in self._models if each.calls]
        return [
            (each.name, each.calls, each.norms.digests(), each.location, each.is_copy)
            for each in called
        ]


def _kind(module: nn.Module) -> str:
    """Return what puts the models of all ranks into one order; those of a kind are in that of age."""
    return f"{type(module).__name__} {[tuple(each.shape) for each in module.parameters()]}"


def _apart(module: nn.Module, known: Collection[int]) -> Iterator[nn.Module]:
    """Yield the largest parts of a module that have parameters, and none that is known."""
    own = list(module.parameters())
    if own and not any(id(each) in known for each in own):
        if all(type(each) in WHOLE and not each.is_meta for each in own):
            yield module
        return
    for part in module.children():
        yield from _apart(part, known)
