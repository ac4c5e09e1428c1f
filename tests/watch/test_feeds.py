"""DataLoaders that are begun anew: by who counts epochs, and by who counts steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ddpcheck.watch.feeds import Feed, Feeds
from ddpcheck.watch.replaced import Replaced

Loader = DataLoader[Any]


@pytest.fixture
def seen() -> Iterator[list[Feed]]:
    """Yield the feeds that begin while the test runs."""
    feeds: list[Feed] = []

    def tell(event: str, feed: Any, *_rest: Any) -> None:
        if event == "epoch" and feed not in feeds:
            feeds.append(feed)

    followed, replaced = Feeds(tell, lambda: 0), Replaced()
    for name, around in followed.wraps():
        replaced.put(_BaseDataLoaderIter, name, around)
    try:
        yield feeds
    finally:
        replaced.close()


def loader() -> Loader:
    return DataLoader(TensorDataset(torch.arange(4)), batch_size=2)


def by_a_loop(data: Loader) -> None:
    for _ in range(3):
        for _batch in data:
            pass


def through_a_generator_each_epoch(data: Loader) -> None:
    def shown(batches: Loader) -> Iterator[Any]:
        yield from batches

    for _ in range(3):
        for _batch in shown(data):
            pass


def until_it_ends(data: Loader) -> None:
    for _ in range(3):
        batches = iter(data)
        while True:
            try:
                next(batches)
            except StopIteration:
                break


def in_a_generator_for_ever(data: Loader) -> None:
    def cycle() -> Iterator[Any]:
        while True:
            yield from data

    batches = cycle()
    for _ in range(6):
        next(batches)


def in_a_generator_with_a_loop(data: Loader) -> None:
    def cycle() -> Iterator[Any]:
        while True:
            for batch in data:
                yield (batch,)

    for _, _batch in zip(range(6), cycle(), strict=False):
        pass


def where_the_end_is_handled(data: Loader) -> None:
    batches = iter(data)
    for _ in range(6):
        try:
            next(batches)
        except StopIteration:
            batches = iter(data)
            next(batches)


@pytest.mark.parametrize(
    ("loop", "cycles"),
    [
        (by_a_loop, False),
        (through_a_generator_each_epoch, False),
        (until_it_ends, False),
        (in_a_generator_for_ever, True),
        (in_a_generator_with_a_loop, True),
        (where_the_end_is_handled, True),
    ],
)
def test_who_counts_steps_is_known(
    loop: Callable[[Loader], None], cycles: bool, seen: list[Feed]
) -> None:
    loop(loader())
    (feed,) = seen
    assert feed.cycles is cycles
