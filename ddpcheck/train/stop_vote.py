"""Whether a training is to stop: all ranks learn it after the same step."""

from __future__ import annotations

import torch

from ddpcheck.train.late import OneCallLate
from ddpcheck.train.parallel import Share

# A vote is a collective, and a wait for the one before it: in every step of some milliseconds, that
# is a tenth of the time (2 NVIDIA H200, 7 ms). On a CPU, where steps are longer, it is none.
GPU_STEPS_BETWEEN = 8


def steps_between(device: torch.device) -> int:
    """Return after how many steps there is a vote again."""
    return GPU_STEPS_BETWEEN if device.type == "cuda" else 1


class StopVote:
    """Asks all ranks whether one of them is to stop, every so many steps.

    ``everyone`` are the ranks, with their tensors on ``device``.
    """

    def __init__(self, everyone: Share, device: torch.device, every: int) -> None:
        self._everyone = everyone
        self._device = device
        self._every = every
        self._late = OneCallLate()

    def is_to_stop(self, step: int, *, asked: bool) -> bool:
        """Return whether some rank was asked by the vote before; a rank stays asked.

        All ranks must call this after every step, and are told alike.
        """
        if step % self._every:
            return False
        asking = torch.full((), float(asked), device=self._device)
        return self._late.exchange(self._everyone.sum(asking)) > 0
