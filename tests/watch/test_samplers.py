"""The samplers of a script: where they were made, and which shares were trained on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from ddpcheck.measures.shares import Share
from ddpcheck.watch.feeds import Feed
from ddpcheck.watch.replaced import Replaced
from ddpcheck.watch.samplers import MADE, Shares

DATA = TensorDataset(torch.arange(12))


class InHalves(DistributedSampler[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(range(self.seed, 6))


@pytest.fixture(autouse=True)
def _made() -> Iterator[None]:
    """Notice what is made while the test runs."""
    replaced = Replaced()
    MADE.watch(replaced)
    yield
    replaced.close()


def sampler(seed: int, kind: type[DistributedSampler[Any]] = DistributedSampler) -> Any:
    return kind(DATA, num_replicas=2, rank=1, seed=seed)


def feed(number: int, its_sampler: Any) -> Feed:
    loader = DataLoader(DATA, batch_size=3, sampler=its_sampler)
    return Feed(number, None, samples=12, loader=lambda: loader)


def trained(shares: Shares, feed: Feed) -> None:
    shares.on_epoch(feed)
    shares.on_fed(feed)
    shares.on_loss(0, None)


def test_a_share_that_is_trained_on() -> None:
    shares, own = Shares(), sampler(5)
    first, other = feed(0, own), feed(1, sampler(6))
    trained(shares, first)
    own.set_epoch(3)
    shares.on_epoch(other)
    trained(shares, first)
    (share,) = shares.taken()
    assert share == Share(share.location, share.number, 12, 2, 1, True, 5, (0, 3))
    assert share.location is not None
    assert (share.location.file, share.location.function) == (__file__, "sampler")
    trained(shares, other)
    assert [each.number - share.number for each in shares.taken()] == [0, 1]


@pytest.mark.parametrize("its_sampler", [None, range(12)])
def test_other_samplers_tell_nothing(its_sampler: Any) -> None:
    shares = Shares()
    trained(shares, feed(0, its_sampler))
    assert shares.taken() == ()


def test_one_that_draws_in_its_own_way_tells_nothing() -> None:
    shares = Shares()
    trained(shares, feed(0, sampler(0, InHalves)))
    assert shares.taken() == ()
