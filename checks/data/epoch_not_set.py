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
from ddpcheck.measures.orders import Pass, are_alike, untold

if TYPE_CHECKING:
    from ddpcheck.watch.feeds import Feed

# Equal orders of so few samples may be chance: 8 samples have 40,320 orders.
LEAST_SAMPLES_COUNT = 8
KEPT_BATCHES_COUNT = 64
# With room for those of a search for a learning rate before the first epoch.
KEPT_EPOCHS_COUNT = 8


class Order(msgspec.Struct, frozen=True):
    """The samples of the first batches of each epoch of a loader that training took batches of.

    They are those for which no other epoch was told. ``epochs`` has a digest for each batch,
    ``samples`` the number of samples in those of the first one.
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
        self._passes: dict[int, list[Pass]] = {}
        self._current: Pass | None = None
        self._optimizers = 0

    def on_optimizing(self, _optimizer: object, _location: object) -> None:
        """Count the optimizer: what is trained from now on may be another training."""
        self._optimizers += 1

    def on_epoch(self, feed: Feed) -> None:
        """Begin another epoch of this loader."""
        self._feeds[feed.number] = feed
        self._passes.setdefault(feed.number, []).append(Pass(feed.epoch, self._optimizers))

    def on_indices(self, feed: Feed, indices: Any) -> None:
        """Keep a digest of the samples of a batch."""
        passes = self._passes.get(feed.number, [])  # it may have begun in another training
        if 0 < len(passes) <= KEPT_EPOCHS_COUNT and len(passes[-1].batches) < KEPT_BATCHES_COUNT:
            passes[-1].batches.append(short_digest(repr(indices)))
            passes[-1].samples += len(indices) if isinstance(indices, Sequence) else 1

    def on_fed(self, feed: Feed) -> None:
        """Remember whose batch comes next."""
        passes = self._passes.get(feed.number)
        self._current = passes[-1] if passes else None

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note that the last batch was trained on: the order of an evaluation may be the same."""
        if self._current is not None:
            self._current.until = self._optimizers

    def facts(self) -> Facts:
        """Return the orders; raises Skip where no DataLoader was iterated."""
        if not self._feeds:
            raise Skip("no DataLoader was iterated by the script")
        shuffling = [number for number, feed in sorted(self._feeds.items()) if feed.shuffles]
        orders = tuple(self._order(number) for number in shuffling)
        return Facts(orders, len(self._feeds) - len(orders))

    def _order(self, number: int) -> Order:
        """Return the iterations that were trained on, as long as nobody has told an epoch."""
        kept = self._passes[number][:KEPT_EPOCHS_COUNT]
        same = untold(kept)
        epochs = tuple(tuple(each.batches) for each in same)
        return Order(self._feeds[number].location, epochs, same[0].samples if same else 0)


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
    samples = order.samples * min(len(first), len(second)) // len(first)
    return samples >= LEAST_SAMPLES_COUNT and are_alike(first, second)


def _finding(ranks: Mapping[int, Order]) -> Finding:
    order = ranks[min(ranks)]
    count = min(len(order.epochs[0]), len(order.epochs[1]))
    return Finding(
        title="the data order is the same in every epoch",
        message=f"the first {count} batches of two epochs have the same samples in the same "
        f"order on {len(ranks)} rank(s): set_epoch was not called in between, or not on it",
        fix="call set_epoch(epoch) of the DistributedSampler (loader.sampler, or "
        "loader.batch_sampler.sampler) at the start of each epoch, before the loop over the loader",
        ranks=tuple(ranks),
        confidence=Confidence.HIGH,
        location=order.location,
    )
