"""Lengths that torch knows are asked for, and never those that only the user's code knows."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
)

from ddpcheck.watch.lengths import batches_in

DATA = TensorDataset(torch.zeros(10, 1))


def refuse() -> int:
    raise AssertionError("a length of the user's was asked for: it may call a collective")


class Shards(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))

    def __len__(self) -> int:
        return refuse()


class Share(SequentialSampler):
    def __len__(self) -> int:
        return refuse()


class Batches(BatchSampler):
    def __len__(self) -> int:
        return refuse()


class Loader(DataLoader[Any]):
    def __len__(self) -> int:
        return refuse()


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(Shards()),
        DataLoader(DATA, sampler=Share(DATA)),
        DataLoader(DATA, batch_sampler=Batches(SequentialSampler(DATA), 2, drop_last=False)),
        DataLoader(DATA, batch_sampler=BatchSampler(Share(DATA), 2, drop_last=False)),
        Loader(DATA),
        iter([]),
    ],
)
def test_what_only_the_user_knows_is_not_asked_for(loader: object) -> None:
    assert batches_in(loader) is None


def test_what_torch_knows_is_told() -> None:
    assert batches_in(DataLoader(DATA, 4)) == 3
    assert batches_in(DataLoader(DATA, 4, drop_last=True)) == 2
    assert batches_in([DATA, DATA]) == 2
