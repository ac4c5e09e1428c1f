"""The buffers of a model in DDP that it does not hand out, and how a step changes them."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.measures.sketch import Sketch
from ddpcheck.target.sketch import sketch_all
from ddpcheck.watch.replicas import unsaved_buffers

KEPT_BUFFERS = 256
# Between these two the optimizer has made its state, and the first averages have settled.
LOOKED_AFTER_STEPS = (1, 2)
KEPT_ELEMENTS = 1 << 16
# By the median of what has changed: an average takes in a tenth of what is new, or less.
GRADUAL_RELATIVE = 0.5


class OwnBuffers:
    """Floating point buffers that are saved, but the statistics of norms, which others look at."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self._module = ddp.module
        is_handed_out = ddp.broadcast_buffers
        self._names = frozenset(() if is_handed_out else _own(ddp)[:KEPT_BUFFERS])
        self._looks: list[dict[str, torch.Tensor]] = []
        self.before = self.sketch()

    def sketch(self) -> dict[str, Sketch]:
        """Return sketches of them as they are now."""
        return sketch_all(self._now().items())

    def note(self, step: int) -> None:
        """Keep how they begin around one step."""
        if step in LOOKED_AFTER_STEPS:
            beginnings = {n: b.detach().reshape(-1)[:KEPT_ELEMENTS] for n, b in self._now().items()}
            self._looks.append({name: each.clone() for name, each in beginnings.items()})

    def gradual(self) -> tuple[str, ...]:
        """Return those of several numbers that the step changed by a part of their size."""
        if len(self._looks) < len(LOOKED_AFTER_STEPS):
            return ()
        before, after = self._looks
        return tuple(n for n in before if n in after and _is_gradual(before[n], after[n]))

    def _now(self) -> dict[str, torch.Tensor]:
        named = self._module.named_buffers() if self._names else ()
        return {name: each for name, each in named if name in self._names}


def _own(ddp: DistributedDataParallel) -> list[str]:
    norms = [name for name, part in ddp.module.named_modules() if isinstance(part, _NormBase)]
    others = {*unsaved_buffers(ddp.module), *ddp.parameters_to_ignore}
    return [
        name
        for name, each in ddp.module.named_buffers()
        if each.is_floating_point() and name not in others and name.rpartition(".")[0] not in norms
    ]


def _is_gradual(before: torch.Tensor, after: torch.Tensor) -> bool:
    if before.shape != after.shape or before.numel() == 1:
        return False
    changed = before != after
    old, new = before[changed].double(), after[changed].double()
    relative = (new - old).abs() / old.abs().clamp(min=torch.finfo(torch.float32).tiny)
    return relative.numel() > 0 and float(relative.median()) <= GRADUAL_RELATIVE
