"""What the workers of a loader hand over to one rank, and how much of it lives at once."""

from __future__ import annotations

import msgspec

# A loader that does not tell its length, as one of an endless stream, has epochs of about this.
UNTOLD_BATCHES = 1000


class Loader(msgspec.Struct, frozen=True):
    """A loader with workers, and its largest batch: how much of shared memory, in how many tensors.

    ``prefetch`` is how many batches each worker prepares ahead, ``epoch_batches`` the loader's
    length, or None when it has none. ``keeps_all`` tells that every batch of the rehearsal was
    still alive after it. ``failure`` is what torch raised when the room came to its end, or ''.
    """

    workers: int
    prefetch: int
    epoch_batches: int | None
    batch_bytes: int
    batch_tensors: int
    keeps_all: bool = False
    failure: str = ""

    @property
    def alive_batches(self) -> int:
        """Return how many batches live at once at the most: those ahead, and the one in use."""
        epoch = UNTOLD_BATCHES if self.epoch_batches is None else self.epoch_batches
        return epoch if self.keeps_all else min(epoch, self.workers * self.prefetch + 1)

    def told(self) -> str:
        """Return why so many batches live at once."""
        if self.keeps_all:
            return f"the training keeps every batch, {self.alive_batches} in an epoch"
        return (
            f"{self.workers} worker(s) with {self.prefetch} batches each (prefetch_factor) and the "
            f"one in use make up to {self.alive_batches} batches at once"
        )
