"""Which operations were made while saved tensors are packed: in a checkpoint, say.

To read what autograd saved of such a one unpacks it, and a checkpoint computes all anew for that:
the script's forward pass, with whatever that does besides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from threading import current_thread, main_thread
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from ddpcheck.watch.replaced import Replaced

# Each checkpoint is one; those of steps long past need not be known.
KEPT_COUNT = 4096


class Packed:
    """The numbers, in the order of their making, of the operations within such contexts."""

    def __init__(self) -> None:
        self._depth = 0
        self._first = 0
        self._firsts: deque[int] = deque(maxlen=KEPT_COUNT)
        self._ends: deque[int] = deque(maxlen=KEPT_COUNT)

    def watch(self, replaced: Replaced) -> None:
        """Hear of each such context, until what was replaced is put back."""
        replaced.tell_before(saved_tensors_hooks, "__enter__", self._entered)
        replaced.tell_after(saved_tensors_hooks, "__exit__", self._left)

    def has(self, node: Any) -> bool:
        """Return whether an operation was made within one."""
        number = node._sequence_nr()
        if self._depth and number >= self._first:
            return True
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number < self._ends[at]

    def _entered(self, _arguments: Any, _named: Any) -> None:
        if current_thread() is not main_thread():  # each thread has numbers of its own
            return
        if not self._depth:
            self._first = _next_number()
        self._depth += 1

    def _left(self, _result: Any, _arguments: Any, _named: Any) -> None:
        if current_thread() is not main_thread():
            return
        self._depth = max(0, self._depth - 1)
        if not self._depth and _next_number() > self._first:
            self._firsts.append(self._first)
            self._ends.append(_next_number())


def _next_number() -> int:
    autograd: Any = vars(torch._C)["_autograd"]
    return int(autograd._get_sequence_nr())


# Operations are numbered in a process, once for all.
PACKED = Packed()


def saved(node: Any, name: str) -> torch.Tensor | None:
    """Return a tensor that autograd saved of an operation, if that is there, and not packed."""
    if not hasattr(type(node), name) or PACKED.has(node):
        return None
    tensor: Any = getattr(node, name)
    return tensor if type(tensor) is torch.Tensor else None
