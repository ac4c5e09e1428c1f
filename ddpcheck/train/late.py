"""Numbers from the device, read without waiting for it."""

from __future__ import annotations

import torch
from torch import Tensor


class OneCallLate:
    """Returns each number one call after it was given.

    Reading one at once would have the GPU wait for the next step to be queued, and this for the
    GPU. By the next call the copy is there, as a rule, while the device is at that call's step.
    """

    def __init__(self) -> None:
        self._copy: Tensor | None = None
        self._copied: torch.cuda.Event | None = None

    def exchange(self, value: Tensor) -> float:
        """Take a number, a tensor of any device; return the one before, at first 0."""
        before = self._read()
        self._copy = value.detach().to("cpu", non_blocking=True)
        if value.device.type == "cuda":
            self._copied = torch.cuda.Event()
            self._copied.record()
        return before

    def _read(self) -> float:
        if self._copied is not None:
            self._copied.synchronize()
        return 0.0 if self._copy is None else float(self._copy)
