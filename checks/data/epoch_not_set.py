"""The data order is the same in every epoch.

Why it matters
    A DistributedSampler shuffles by its epoch number. When nobody tells it, each epoch has the
    same batches in the same order, on every rank: training loses what shuffling is for, and
    nothing says so.

What to do
    Call loader.sampler.set_epoch(epoch) at the start of each epoch, before iterating the loader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location
from ddpcheck.measures.digests import short_digest

if TYPE_CHECKING:
    from ddpcheck.watch.feeds import Feed

# Equal orders of so few samples may be chance: 8 samples have 40,320 orders.
LEAST_SAMPLES_COUNT = 8
KEPT_BATCHES_COUNT = 64
KEPT_EPOCHS_COUNT = 4


class Order(msgspec.Struct, frozen=True):
    """The samples of the first batches of each epoch of a loader that training took batches of.

    ``epochs`` has a digest for each batch, ``samples`` the number of samples in them.
    """

    location: Location | None
    epochs: tuple[tuple[str, ...], ...]
    samples: int


class Facts(msgspec.Struct, frozen=True):
    """The orders of a rank's loaders whose DistributedSampler shuffles, and how many others."""

    orders: tuple[Order, ...]
    others: int


class Observer:
    """Notes which samples each DataLoader's sampler chooses, epoch by epoch."""

    def __init__(self, ctx: Context) -> None:
        del ctx
        self._feeds: dict[int, Feed] = {}
        self._epochs: dict[int, list[list[str]]] = {}
        self._samples: dict[int, int] = {}
        self._current: Feed | None = None
        self._trained: set[tuple[int, int]] = set()
        self._numbers: dict[int, list[int]] = {}

    def on_epoch(self, feed: Feed) -> None:
        """Begin another epoch of this loader."""
        self._feeds[feed.number] = feed
        self._epochs.setdefault(feed.number, []).append([])
        self._numbers.setdefault(feed.number, []).append(feed.epoch)

    def on_indices(self, feed: Feed, indices: Any) -> None:
        """Keep a digest of the samples of a batch."""
        epochs = self._epochs[feed.number]
        if len(epochs) <= KEPT_EPOCHS_COUNT and len(epochs[-1]) < KEPT_BATCHES_COUNT:
            epochs[-1].append(short_digest(repr(indices)))
            if len(epochs) == 1:
                count = len(indices) if isinstance(indices, Sequence) else 1
                self._samples[feed.number] = self._samples.get(feed.number, 0) + count

    def on_fed(self, feed: Feed) -> None:
        """Remember whose batch comes next."""
        self._current = feed

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note that the last batch was trained on: the order of an evaluation may be the same."""
        if self._current is not None:
            self._trained.add((self._current.number, self._current.epochs - 1))

    def facts(self) -> Facts:
        """Return the orders; raises Skip where no DataLoader was iterated."""
        if not self._feeds:
            raise Skip("no DataLoader was iterated by the script")
        shuffling = [number for number, feed in sorted(self._feeds.items()) if feed.shuffles]
        orders = tuple(self._order(number) for number in shuffling)
        return Facts(orders, len(self._feeds) - len(orders))

    def _order(self, number: int) -> Order:
        """Return the iterations that were trained on, as long as nobody has told an epoch."""
        told = self._numbers[number]
        epochs = enumerate(self._epochs[number][:KEPT_EPOCHS_COUNT])
        return Order(
            self._feeds[number].location,
            tuple(
                tuple(batches)
                for at, batches in epochs
                if (number, at) in self._trained and told[at] == told[0]
            ),
            self._samples.get(number, 0),
        )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each loader whose order came again, with the ranks that saw it."""
    again: dict[str, dict[int, Order]] = {}
    for rank, own in sorted(facts.items()):
        for order in own.orders:
            if _is_again(order):
                again.setdefault(str(order.location), {})[rank] = order
    return [_finding(ranks) for ranks in again.values()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many epochs were compared."""
    orders = [order for own in facts.values() for order in own.orders]
    if not orders:
        return "no loader with a DistributedSampler that shuffles was trained on"
    return f"{max(len(order.epochs) for order in orders)} epochs begun"


def _is_again(order: Order) -> bool:
    if len(order.epochs) <= 1 or not order.epochs[0]:
        return False
    first, second = order.epochs[:2]
    count = min(len(first), len(second))
    samples = order.samples * count // len(first)
    return samples >= LEAST_SAMPLES_COUNT and first[:count] == second[:count]


def _finding(ranks: Mapping[int, Order]) -> Finding:
    order = ranks[min(ranks)]
    count = min(len(order.epochs[0]), len(order.epochs[1]))
    return Finding(
        title="the data order is the same in every epoch",
        message=f"the first {count} batches of epochs 0 and 1 have the same samples in the same "
        f"order on {len(ranks)} rank(s): set_epoch was not called in between, or not on it",
        fix="call set_epoch(epoch) of the DistributedSampler (loader.sampler, or "
        "loader.batch_sampler.sampler) at the start of each epoch, before the loop over the loader",
        ranks=tuple(ranks),
        confidence=Confidence.HIGH,
        location=order.location,
    )
