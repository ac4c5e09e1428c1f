"""A rank's batch in pieces, one after the other: gradient accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor


def micro_batches(batch: Tensor, count: int) -> Iterator[tuple[Tensor, bool]]:
    """Yield (piece, whether it is the last) of a batch [share, block + 1] cut in ``count``."""
    for number, piece in enumerate(batch.tensor_split(count), 1):
        yield piece, number == count
