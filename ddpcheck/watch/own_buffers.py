"""The buffers of a model in DDP, or of a loss beside it, that nobody hands out, and how a step changes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves

from ddpcheck.finding import Location
from ddpcheck.measures.sketch import Sketch
from ddpcheck.target.sketch import sketch_all
from ddpcheck.watch.batchnorm import Look
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.meshes import roots
from ddpcheck.watch.replicas import unsaved_buffers

KEPT_BUFFERS = 256
KEPT_LOSSES = 8
# Between each two the optimizer has made its state, and the first averages have settled; those that
# began with zeros and take in a tenth do later.
LOOKED_AFTER_STEPS = ((1, 2), (6, 7))
KEPT_ELEMENTS = 1 << 16
# By the median of what has changed: an average takes in a tenth of what is new, or less.
GRADUAL_RELATIVE = 0.5


class OwnBuffers:
    """Floating point buffers that are saved, but the statistics of norms, which others look at.

    They are told by their names, after a ``prefix``.
    """

    def __init__(self, module: nn.Module, names: Collection[str], prefix: str = "") -> None:
        self._module, self._prefix = module, prefix
        self._names = frozenset(names)
        self._looks: dict[int, dict[str, torch.Tensor]] = {}
        self.before = self.sketch()

    def sketch(self) -> dict[str, Sketch]:
        """Return sketches of them as they are now."""
        return sketch_all(self._now().items())

    def note(self, step: int) -> None:
        """Keep how they begin around some steps."""
        if any(step in each for each in LOOKED_AFTER_STEPS):
            beginnings = {n: b.detach().reshape(-1)[:KEPT_ELEMENTS] for n, b in self._now().items()}
            self._looks[step] = {name: each.clone() for name, each in beginnings.items()}

    def gradual(self) -> tuple[str, ...]:
        """Return those of several numbers that a step changed by a part of their size."""
        pairs = [
            (self._looks[before], self._looks[after])
            for before, after in LOOKED_AFTER_STEPS
            if after in self._looks
        ]
        names = dict.fromkeys(name for before, after in pairs for name in before if name in after)
        return tuple(
            name
            for name in names
            if any(_is_gradual(b[name], a[name]) for b, a in pairs if name in a)
        )

    def _now(self) -> dict[str, torch.Tensor]:
        named = self._module.named_buffers() if self._names else ()
        return {f"{self._prefix}{name}": each for name, each in named if name in self._names}


class LossBuffers(OwnBuffers):
    """Those of a module without parameters whose output has a history: a loss, ``called`` at a line."""

    def __init__(self, module: nn.Module, names: Collection[str]) -> None:
        super().__init__(module, names, f"{type(module).__name__}.")
        self.called: Location | None = None
        self._hook = module.register_forward_hook(Look(self._look))

    def close(self) -> None:
        """Take the hook off."""
        self._hook.remove()

    def _look(self, _module: nn.Module, _given: Any, output: Any) -> None:
        if self.called is None and any(
            getattr(each, "requires_grad", False) for each in tree_leaves(output)
        ):
            self.called = users_line()


def buffers_in(ddp: DistributedDataParallel) -> OwnBuffers:
    """Return those that DDP does not hand out."""
    names = () if ddp.broadcast_buffers else _own(ddp.module, ddp.parameters_to_ignore)
    return OwnBuffers(ddp.module, names)


def buffers_beside(model: nn.Module) -> Iterator[LossBuffers]:
    """Yield those of the script's losses: a search through all objects."""
    with suppress(Exception):  # whatever a module of the script's may do there
        for root in roots(model):
            names = [] if any(True for _ in root.parameters()) else _own(root, ())
            if names:
                yield LossBuffers(root, names)


def _own(module: nn.Module, ignored: Collection[str]) -> list[str]:
    norms = [name for name, part in module.named_modules() if isinstance(part, _NormBase)]
    others = {*unsaved_buffers(module), *ignored}
    names = [
        name
        for name, each in module.named_buffers()
        if each.is_floating_point() and name not in others and name.rpartition(".")[0] not in norms
    ]
    return names[:KEPT_BUFFERS]


def _is_gradual(before: torch.Tensor, after: torch.Tensor) -> bool:
    if before.shape != after.shape or before.numel() == 1:
        return False
    changed = before != after
    old, new = before[changed].double(), after[changed].double()
    relative = (new - old).abs() / old.abs().clamp(min=torch.finfo(torch.float32).tiny)
    return relative.numel() > 0 and float(relative.median()) <= GRADUAL_RELATIVE
