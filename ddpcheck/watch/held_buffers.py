"""Whether DDP's broadcast of buffers overwrites what a backward pass still needs.

Before each forward pass DDP writes rank 0's buffers into those of the other ranks, and not so that
autograd notices: a graph of an earlier forward pass that holds a buffer computes with the new values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from ddpcheck.finding import Location
from ddpcheck.watch.batchnorm import Look
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.graphs import all_saved, nodes_of

# Of a model whose first graphs hold none, no more is asked.
FIRST_LOOKS, MOST_LOOKS = 2, 64
KEPT_PASSES = 8
KEPT_FOUND = 16


class Overwritten(NamedTuple):
    """A buffer, whether it had another value (on its device), and the forward pass it was before."""

    name: str
    changed: Tensor
    step: int
    location: Location | None


class _Pass:
    """A forward pass whose backward pass may come."""

    def __init__(self, held: list[tuple[str, Tensor]]) -> None:
        self.held = held
        self.before: list[Tensor] = []
        self.overwritten: list[Overwritten] = []


class HeldBuffers:
    """Hooks on DDP and on the module that it wraps; ``now`` returns the training step."""

    def __init__(self, ddp: nn.Module, module: nn.Module, now: Callable[[], int]) -> None:
        self._now = now
        self._passes: list[_Pass] = []
        self._looks = 0
        self._found: list[Overwritten] = []
        self._hooks = [
            ddp.register_forward_pre_hook(Look(self._before_broadcast)),
            module.register_forward_pre_hook(Look(self._after_broadcast)),
            module.register_forward_hook(Look(self._made)),
        ]

    def close(self) -> Iterator[Overwritten]:
        """Take the hooks off, and yield what was overwritten before it was used."""
        self._unhook()
        return (each for each in self._found if bool(each.changed))

    def _unhook(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._passes.clear()

    def _before_broadcast(self, *_given: object) -> None:
        for each in self._passes:
            each.before = [tensor.clone() for _, tensor in each.held]

    def _after_broadcast(self, *_given: object) -> None:
        location = users_line() if self._passes else None
        for each in self._passes:
            for (name, tensor), before in zip(each.held, each.before, strict=False):
                changed = _differs(tensor, before)
                each.overwritten.append(Overwritten(name, changed, self._now(), location))
            each.before = []

    def _made(self, module: nn.Module, _given: object, output: object) -> None:
        leaves = [each for each in tree_leaves(output) if isinstance(each, Tensor)]
        outputs = [each for each in leaves if each.grad_fn is not None]
        if not torch.is_grad_enabled() or not outputs:
            return
        self._looks += 1
        held = _held(module, outputs)
        if held:
            self._expect(_Pass(held), outputs)
        elif self._looks == FIRST_LOOKS:
            self._unhook()
        if self._looks == MOST_LOOKS:
            self._unhook()

    def _expect(self, made: _Pass, outputs: list[Tensor]) -> None:
        """Note when the backward pass of these outputs begins."""
        self._passes = [*self._passes[1 - KEPT_PASSES :], made]

        def begins(_gradient: Tensor) -> None:
            self._found += made.overwritten[: KEPT_FOUND - len(self._found)]
            made.overwritten = []
            if made in self._passes:
                self._passes.remove(made)

        for each in outputs:
            each.register_hook(begins)


def _differs(one: Tensor, other: Tensor) -> Tensor:
    are_numbers = (one == one) | (other == other)  # noqa: PLR0124 - not a number is not itself
    return ((one != other) & are_numbers).any()


def _held(module: nn.Module, outputs: list[Tensor]) -> list[tuple[str, Tensor]]:
    """Return the buffers, or views of them, that the graph of some outputs holds, once each."""
    names = {_place(each): name for name, each in module.named_buffers() if each.numel()}
    if not names:
        return []
    held: dict[tuple[Any, ...], tuple[str, Tensor]] = {}
    for node in nodes_of(outputs):
        for tensor in _used_of(node):
            name = names.get(_place(tensor))
            if name is not None:
                held[(tensor.data_ptr(), tensor.shape, tensor.stride())] = name, tensor.detach()
    return list(held.values())


def _place(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # some have no memory of their own
        return 0


def _used_of(node: Any) -> Iterator[Tensor]:
    for name, tensor in all_saved(node):
        # In training BatchNorm computes with its batch's statistics; the running ones are kept
        # for another mode.
        is_running = name.startswith("_saved_running") and getattr(node, "_saved_training", False)
        if tensor.numel() and not is_running:
            yield tensor
