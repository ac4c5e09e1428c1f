"""The training data: each rank's share of the text, in batches, epoch after epoch."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import count, islice
from typing import cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler

from ddpcheck.launch.endings import REQUESTS_TO_END
from ddpcheck.target.builtin import SEED, shared_sampler
from ddpcheck.train.manifest import Position

START = Position()


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
        self._world_size = world_size
        self._seed = SEED + rank

    def position(self, steps: int) -> Position:
        """Return where training is after so many steps, in samples of all ranks.

        All ranks' batches of a step together are the next samples of the epoch's order, on however
        many ranks: so a position holds for any number of them.
        """
        epoch, step = divmod(steps, len(self._sampler) // self.rank_batch)
        return Position(epoch=epoch, samples=step * self.rank_batch * self._world_size)

    def iterate(
        self, start: Position = START, *, workers: int = 0, pin_memory: bool = False
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield (epoch, batch) from ``start`` on, each epoch in another order.

        Random numbers that a worker draws are not those of a run that was never stopped: a dataset
        that draws any has to seed them by epoch and index. This one draws none.
        """
        loader = DataLoader(
            self._dataset,
            batch_size=self.rank_batch,
            sampler=_Remaining(self._sampler, start.samples // self._world_size),
            drop_last=True,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=pin_memory,
            generator=torch.Generator().manual_seed(self._seed),
            worker_init_fn=_outlive_requests_to_end if workers else None,
        )
        for epoch in count(start.epoch):
            # Before the loader is iterated: that is when the sampler draws the order.
            self._sampler.set_epoch(epoch)
            for batch in loader:
                yield epoch, batch


class _Remaining(Sampler[int]):
    """A sampler whose first pass leaves out what was trained on before."""

    def __init__(self, sampler: DistributedSampler[Tensor], passed: int) -> None:
        self._sampler = sampler
        self._passed = passed

    def __iter__(self) -> Iterator[int]:
        passed, self._passed = self._passed, 0
        # What torch says of its own sampler is that it yields what the dataset does.
        order = cast(Iterator[int], iter(self._sampler))
        return islice(order, passed, None)

    def __len__(self) -> int:
        return len(self._sampler) - self._passed


def _outlive_requests_to_end(_worker: int) -> None:
    # Schedulers signal every process of a job. Without its workers, the rank could not train on to
    # the step at which all stop; once it closes, so do they.
    for number in REQUESTS_TO_END:
        signal.signal(number, signal.SIG_IGN)


def fingerprint(text: Tensor) -> str:
    """Return what tells one text, uint8 [n], from another: its length and a weighted sum."""
    places = torch.arange(1, len(text) + 1)
    return f"{len(text)}:{int((text.long() * places).sum())}"
