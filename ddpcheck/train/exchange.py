"""What ranks tell each other beside gradients: losses, and whether one of them is to stop."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ddpcheck.train.late import OneCallLate
from ddpcheck.train.parallel import Share

# An exchange is a collective, and a wait for the one before it: in every step of some milliseconds,
# that is a tenth of the time (2 NVIDIA H200, 7 ms). On a CPU, where steps are longer, it is none.
GPU_STEPS_BETWEEN = 8


def steps_between(device: torch.device) -> int:
    """Return after how many steps there is an exchange again."""
    return GPU_STEPS_BETWEEN if device.type == "cuda" else 1


class Heard(NamedTuple):
    """What an exchange brought.

    losses: (step, global mean loss, on the device) of all that were noted since the one before.
    is_to_stop: whether some rank was asked to by the exchange before.
    """

    losses: list[tuple[int, Tensor]]
    is_to_stop: bool


class Exchange:
    """One collective for all there is to tell since the last one, among ``everyone``."""

    def __init__(self, everyone: Share) -> None:
        self._everyone = everyone
        self._noted: list[tuple[int, Tensor]] = []
        self._late = OneCallLate()

    def note(self, step: int, part: Tensor) -> None:
        """Keep this rank's part of a step's loss for the next exchange; all ranks note alike."""
        self._noted.append((step, part))

    def talk(self, *, asked: bool) -> Heard:
        """Tell the others, and hear them; all ranks must call this after the same step.

        ``asked`` says whether this rank is asked to stop; a rank stays asked. Nothing waits for the
        device but for what the exchange before it brought. At least one loss must have been noted.
        """
        steps, parts = zip(*self._noted, strict=True)
        self._noted = []
        asking = torch.full_like(parts[0], float(asked))
        asked_by, *losses = self._everyone.sum(torch.stack([asking, *parts])).unbind()
        is_to_stop = self._late.exchange(asked_by) > 0
        return Heard(list(zip(steps, losses, strict=True)), is_to_stop)
