"""The first losses that a rank goes backward from."""

from __future__ import annotations

from torch import Tensor

# Two that are equal by chance on all ranks are unlikely, so many are not.
KEPT_COUNT = 16


class Losses:
    """Keeps them where they are: nothing waits for a GPU, and nothing is sent."""

    def __init__(self) -> None:
        self._kept: list[Tensor] = []

    def on_loss(self, _step: int, loss: Tensor) -> None:
        """Keep one of the first losses; of a DTensor what this rank has of it."""
        if len(self._kept) < KEPT_COUNT:
            here: Tensor = getattr(loss, "_local_tensor", loss)
            self._kept.append(here.detach().clone())

    def read(self) -> tuple[float, ...]:
        """Return their values; waits for the device."""
        return tuple(float(loss) for loss in self._kept)
