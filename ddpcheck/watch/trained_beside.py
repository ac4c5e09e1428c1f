"""What other optimizers train than that of the model which is watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ddpcheck.finding import Location
from ddpcheck.measures.sketch import Sketch
from ddpcheck.target.sketch import sketch_all
from ddpcheck.watch.meshes import names_of
from ddpcheck.watch.optimizers import MADE_AT
from ddpcheck.watch.replicas import WHOLE, Norms
from ddpcheck.watch.trained import ParametersOf

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

KEPT_OPTIMIZERS = 8


class TrainedBeside:
    """A part of an observer: the parameters of others, but those of models in DDP and of FSDP.

    ``steps`` are those that others made, once the model was known; ``lines`` are where they were
    made, by the parameters' names, and ``names`` what the script calls those.
    """

    def __init__(self) -> None:
        self._parameters: dict[str, torch.Tensor] = {}
        self._norms: Norms | None = None
        self.before: dict[str, Sketch] = {}
        self.lines: dict[str, Location | None] = {}
        self.names: dict[str, str] = {}
        self.steps = 0

    def on_built(self, live: Trained) -> None:
        """Sketch what they start from."""
        wrapped: list[nn.Module] = [live.module, *live.beside]
        known = {id(each) for module in wrapped for each in module.parameters()}
        known |= {id(each) for group in _groups(live.optimizer) for each in group["params"]}
        others = [each for each in MADE_AT if each is not live.optimizer]
        for number, optimizer in enumerate(others[-KEPT_OPTIMIZERS:]):
            self._take(f"optimizer {number}", optimizer, known)
        self.before = self.sketch()
        self._norms = Norms(list(self._parameters.values()))

    def on_other_step(self) -> None:
        """Count the step, and keep what tells whether ranks are alike after it."""
        if self._norms is not None and self._parameters:
            self.steps += 1
            self._norms.note()

    def sketch(self) -> dict[str, Sketch]:
        """Return sketches of the parameters as they are now."""
        return sketch_all(self._parameters.items())

    def digests(self) -> tuple[str, ...]:
        """Return a digest of each moment's norms; waits for the device."""
        return self._norms.digests() if self._norms is not None else ()

    def _take(self, prefix: str, optimizer: Any, known: set[int]) -> None:
        module = ParametersOf(optimizer)
        names = names_of(module)
        for name, parameter in module.named_parameters():
            is_whole = type(parameter) in WHOLE
            is_own = parameter.requires_grad and id(parameter) not in known
            if is_whole and is_own and not hasattr(parameter, "_fsdp_flattened"):
                known.add(id(parameter))
                called = names.get(name, name)
                key = f"{prefix} {called} {list(parameter.shape)}"
                self._parameters[key] = parameter
                self.lines[key] = MADE_AT[optimizer]
                self.names[key] = called


def _groups(optimizer: Any) -> list[dict[str, Any]]:
    return optimizer.param_groups if optimizer is not None else []
