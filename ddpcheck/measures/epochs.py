"""The iterations that a rank made over its loaders."""

from __future__ import annotations

import msgspec

from ddpcheck.finding import Location


class Epoch(msgspec.Struct, frozen=True):
    """The batches of an iteration that the model was called with, or a loss came of, as it did of one.

    ``is_over`` is whether it came to its end. A batch that was only ``fetched`` does no harm: ranks may
    ask each other then whether all have one.
    """

    batches: int = 0
    is_over: bool = False
    is_trained: bool = True
    fetched: int = 0


class Feeding(msgspec.Struct, frozen=True):
    """The iterations over one loader, in order; ``cycles`` as its Feed does."""

    location: Location | None
    epochs: tuple[Epoch, ...]
    cycles: bool = False
