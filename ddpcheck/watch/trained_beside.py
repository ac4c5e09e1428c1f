"""What other optimizers train than that of the model which is watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from ddpcheck.finding import Location
from ddpcheck.measures.sketch import Sketch
from ddpcheck.target.sketch import sketch_all
from ddpcheck.watch.batchnorm import Look
from ddpcheck.watch.graphs import nodes_of
from ddpcheck.watch.meshes import names_of
from ddpcheck.watch.optimizers import MADE_AT
from ddpcheck.watch.replicas import WHOLE, Norms
from ddpcheck.watch.trained import ParametersOf, parameters_of

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

KEPT_OPTIMIZERS = 8
# Passes whose graph is looked at, of each of the two kinds: a pass of each optimizer, and some more.
LOOKS = 8


class TrainedBeside:
    """A part of an observer: the parameters of others, but those of models in DDP and of FSDP.

    ``steps`` are those that others made, once the model was known; ``lines`` are where they were
    made, by the parameters' names, and ``names`` what the script calls those. They are ``linked`` with
    the model where a loss goes back to both, or what the model is called with was computed by them:
    a probe on features that were detached is not.
    """

    def __init__(self) -> None:
        self._parameters: dict[str, torch.Tensor] = {}
        self._norms: Norms | None = None
        self.before: dict[str, Sketch] = {}
        self.lines: dict[str, Location | None] = {}
        self.names: dict[str, str] = {}
        self.steps = 0
        self.linked = False
        self._main: frozenset[int] = frozenset()
        self._looks = {"loss": LOOKS, "inputs": LOOKS}
        self._hook: RemovableHandle | None = None

    def on_built(self, live: Trained) -> None:
        """Sketch what they start from."""
        wrapped: list[nn.Module] = [live.module, *live.beside]
        known = {id(each) for module in wrapped for each in module.parameters()}
        known |= {id(each) for each in parameters_of(live.optimizer)} if live.optimizer else set()
        others = [each for each in MADE_AT if each is not live.optimizer]
        for number, optimizer in enumerate(others[-KEPT_OPTIMIZERS:]):
            self._take(f"optimizer {number}", optimizer, known)
        self.before = self.sketch()
        self._norms = Norms(list(self._parameters.values()))
        self._main = frozenset(map(id, live.module.parameters()))
        if self._parameters:
            self._hook = live.module.register_forward_pre_hook(Look(self._called))

    def on_loss(self, _step: int, loss: torch.Tensor) -> None:
        """Look whether it goes back to both."""
        found = self._reached("loss", [loss])
        self.linked = self.linked or bool(found & self._main and found & self._own)

    def _called(self, _module: nn.Module, given: tuple[Any, ...]) -> None:
        tensors = [each for each in tree_leaves(given) if isinstance(each, torch.Tensor)]
        self.linked = self.linked or bool(self._reached("inputs", tensors) & self._own)

    def _reached(self, kind: str, tensors: Sequence[torch.Tensor]) -> set[int]:
        """Return the parameters that were used for tensors with a history, in the first passes."""
        if self.linked or not self._parameters or not any(t.grad_fn is not None for t in tensors):
            return set()
        self._looks[kind] -= 1
        nodes = nodes_of(tensors) if self._looks[kind] >= 0 else ()
        return {id(node.variable) for node in nodes if hasattr(node, "variable")}

    @property
    def _own(self) -> set[int]:
        return set(map(id, self._parameters.values()))

    def close(self) -> None:
        """Take the hook off."""
        if self._hook is not None:
            self._hook.remove()

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
