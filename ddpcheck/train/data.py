"""The training data: each rank's share of the text, in batches, epoch after epoch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from ddpcheck.target.builtin import SEED, shared_sampler


class ShardedBatches:
    """One rank's batches, int64 [rank_batch, block + 1], without end."""

    def __init__(
        self, dataset: Dataset[Tensor], rank_batch: int, rank: int, world_size: int
    ) -> None:
        self._dataset = dataset
        self.rank_batch = rank_batch
        self._sampler: DistributedSampler[Tensor] = shared_sampler(
            dataset, rank_batch, rank, world_size
        )
        self._seed = SEED + rank

    def iterate(
        self, *, workers: int = 0, pin_memory: bool = False
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield (epoch, batch) from epoch 0 on, each epoch in another order."""
        loader = DataLoader(
            self._dataset,
            batch_size=self.rank_batch,
            sampler=self._sampler,
            drop_last=True,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=pin_memory,
            generator=torch.Generator().manual_seed(self._seed),
        )
        for epoch in count():
            # Before the loader is iterated: that is when the sampler draws the order.
            self._sampler.set_epoch(epoch)
            for batch in loader:
                yield epoch, batch


def fingerprint(text: Tensor) -> str:
    """Return what tells one text, uint8 [n], from another: its length and a weighted sum."""
    places = torch.arange(1, len(text) + 1)
    return f"{len(text)}:{int((text.long() * places).sum())}"
