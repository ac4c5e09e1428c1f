"""What a script does to its gradients between a mean and the average of the ranks.

It weighs them by hooks of its own on tensors, or averages them itself, without DDP.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist

from ddpcheck.target.live import Trained

# In a step; more tell no more.
KEPT_HOOKS = 64
# Steps of a script that averages by itself: its gradients' norms are what tells, and take time.
KEPT_STEPS = 64
# Of fp32, with room for the sums of many values.
ALIKE_RELATIVE = 1e-3


class Weighings:
    """Notes by what number the gradients of each step were multiplied. It stays on the device."""

    def __init__(self) -> None:
        self.group: tuple[int, ...] = ()
        self.has_hook = False
        self._by_hooks: dict[int, list[torch.Tensor | None]] = {}
        self._by_hand: dict[int, torch.Tensor] = {}
        self._parameters: tuple[torch.nn.Parameter, ...] = ()
        self._step = 0
        self._came: torch.Tensor | None = None
        self._sent: list[tuple[int, torch.Tensor]] = []

    def on_built(self, live: Trained) -> None:
        """Remember what is trained without DDP."""
        parameters = () if live.ddp is not None else tuple(live.module.parameters())
        # To compute with sharded ones would be a collective.
        are_whole = all(type(each) is torch.nn.Parameter for each in parameters)
        self._parameters = parameters if are_whole else ()

    def on_weighed(self, came: torch.Tensor | None, made: torch.Tensor | None) -> None:
        """Note what a hook has made of a gradient, None where it was changed in place."""
        self.has_hook = True
        kept = self._by_hooks.setdefault(self._step, [])
        if len(kept) < KEPT_HOOKS:
            kept.append(None if came is None or made is None else _factor(came, made))

    def on_called(self, call: Any) -> None:
        """Note the gradients that a backward pass came to."""
        if call.name == "backward" and self._parameters and self._step < KEPT_STEPS:
            self._came = _square(self._gradients())
            self._sent = []

    def on_reducing(self, tensor: torch.Tensor, ranks: tuple[int, ...]) -> None:
        """Note the gradients that are summed over ranks, one by one or all in one tensor."""
        if self._came is None:
            return
        gradients = self._gradients()
        is_gradient = any(tensor.data_ptr() == each.data_ptr() for each in gradients)
        if is_gradient or tensor.numel() == sum(each.numel() for each in gradients):
            square = _square([tensor])
            if square is not None:
                self._sent.append((tensor.numel(), square))
                self.group = ranks

    def on_gradients(self, step: int) -> None:
        """Compare what was summed with what came, if it is all of it."""
        many = sum(count for count, _ in self._sent)
        if self._came is not None and many == sum(each.numel() for each in self._gradients()):
            squares = torch.stack([square for _, square in self._sent])
            self._by_hand[step] = (squares.sum() / self._came).sqrt()
        self._came, self._sent = None, []

    def on_step(self, step: int) -> None:
        """Begin another step."""
        self._step = step + 1

    def of_hooks(self, step: int) -> float:
        """Return what hooks multiplied the gradients of a step with; 1 where that is not known."""
        told = [math.nan if each is None else float(each) for each in self._by_hooks.get(step, ())]
        first = told[0] if told else 1.0
        return first if all(_is_alike(each, first) for each in told) else 1.0

    def by_hand(self, step: int) -> float | None:
        """Return the same of a script that averages by itself; None where it did not."""
        known = self._by_hand.get(step)
        return float(known) if known is not None and math.isfinite(known) else None

    def _gradients(self) -> list[torch.Tensor]:
        return [each.grad for each in self._parameters if each.grad is not None]


def ranks_that_sum(arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, ...]:
    """Return the ranks of an all_reduce that sums or averages; none for another one."""
    given = dict(zip(("tensor", "op", "group"), arguments, strict=False)) | named
    if given.get("op", dist.ReduceOp.SUM) not in {dist.ReduceOp.SUM, dist.ReduceOp.AVG}:
        return ()
    return tuple(dist.get_process_group_ranks(given.get("group")))


def _is_alike(factor: float, first: float) -> bool:
    return math.isfinite(factor) and abs(factor - first) <= ALIKE_RELATIVE * abs(first)


@torch.no_grad()
def _factor(came: torch.Tensor, made: torch.Tensor) -> torch.Tensor | None:
    """Return by what number a gradient was multiplied; NaN if it was not by one number."""
    if made.shape != came.shape or made.is_sparse or came.is_sparse or came.is_complex():
        return None
    before, after = came.detach().flatten().float(), made.detach().flatten().float()
    both, square = before.dot(after), before.dot(before)
    is_one = (after.dot(after) * square - both * both).abs() <= ALIKE_RELATIVE * both * both
    return torch.where(is_one, both / square, math.nan)


@torch.no_grad()
def _square(tensors: list[torch.Tensor]) -> torch.Tensor | None:
    """Return the sum of the squares of all values; None where they are in several places."""
    if len({each.device for each in tensors}) != 1 or any(each.is_sparse for each in tensors):
        return None
    return torch.stack([_norm(each) for each in tensors]).square().sum()


def _norm(tensor: torch.Tensor) -> torch.Tensor:
    dtype = torch.promote_types(tensor.dtype, torch.float32)  # torch refuses a narrower one
    norm: torch.Tensor = torch.linalg.vector_norm(tensor.detach(), dtype=dtype)
    return norm.float()
