"""Numbers from the device, read without waiting for it."""

from __future__ import annotations

import torch
from torch import Tensor


class Late:
    """A number, a tensor of any device, on its way to the CPU.

    Reading one at once would have the GPU wait for the next step to be queued, and this for the
    GPU: all that was queued before must be done. What was queued after it is not waited for here.
    """

    def __init__(self, value: Tensor) -> None:
        self._copy = value.detach().to("cpu", non_blocking=True)
        self._copied: torch.cuda.Event | None = None
        if value.device.type == "cuda":
            self._copied = torch.cuda.Event()
            self._copied.record()

    @property
    def is_there(self) -> bool:
        """Return whether reading it waits for nothing."""
        return self._copied is None or self._copied.query()

    def read(self) -> float:
        """Return the number, once it is there."""
        if self._copied is not None:
            self._copied.synchronize()
        return float(self._copy)


class OneCallLate:
    """Returns each number one call after it was given.

    By the next call it is there, as a rule, while the device is at that call's step.
    """

    def __init__(self) -> None:
        self._before: Late | None = None

    def exchange(self, value: Tensor) -> float:
        """Take a number, a tensor of any device; return the one before, at first 0."""
        before = 0.0 if self._before is None else self._before.read()
        self._before = Late(value)
        return before
