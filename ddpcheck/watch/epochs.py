"""Counts the batches that a training uses of each loader, epoch by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ddpcheck.measures.epochs import Epoch, Feeding
from ddpcheck.watch.replicas import allows_uneven, group_of

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.feeds import Feed

KEPT_EPOCHS_COUNT = 64


class Epochs:
    """A part of an observer: ``joins`` is whether ranks may run out of batches, among ``group``."""

    def __init__(self) -> None:
        self._feeds: dict[int, tuple[Feed, list[Epoch]]] = {}
        self._current: list[Epoch] = []
        self._unused: set[int] = set()
        self._live: Trained | None = None
        # At the end of the script there may be no group.
        self.group: tuple[int, ...] = ()
        self.joins = False

    def told(self) -> tuple[Feeding, ...]:
        """Return the loaders by their order of first use."""
        feeds = (each for _, each in sorted(self._feeds.items()))
        return tuple(
            Feeding(feed.location, tuple(own[:KEPT_EPOCHS_COUNT]), feed.cycles)
            for feed, own in feeds
        )

    def on_built(self, live: Trained) -> None:
        """Remember who trains together."""
        self._live = live
        self.group = group_of(live.ddp) if live.ddp is not None else ()

    def on_epoch(self, feed: Feed) -> None:
        """Begin another epoch of this loader."""
        self._unused.discard(feed.number)
        self._feeds.setdefault(feed.number, (feed, []))[1].append(Epoch(is_trained=False))

    def on_fed(self, feed: Feed) -> None:
        """Note that a batch was fetched."""
        self._current = epochs = self._feeds[feed.number][1]
        epochs[-1] = msgspec.structs.replace(epochs[-1], fetched=epochs[-1].fetched + 1)
        self._unused.add(feed.number)

    def on_inputs(self, _step: int, _inputs: object) -> None:
        """Count a batch, if one was fetched since the last time: the model is called.

        Of several one may have been left out.
        """
        while self._unused:
            epochs = self._feeds[self._unused.pop()][1]
            epochs[-1] = msgspec.structs.replace(epochs[-1], batches=epochs[-1].batches + 1)

    def on_loss(self, step: int, loss: object) -> None:
        """Note that the last batch is trained on."""
        self.on_inputs(step, loss)
        if self._current:
            self._current[-1] = msgspec.structs.replace(self._current[-1], is_trained=True)
        if self._live is not None and self._live.ddp is not None:
            self.joins = self.joins or allows_uneven(self._live.ddp)

    def on_drained(self, feed: Feed) -> None:
        """Note that an epoch is over."""
        epochs = self._feeds[feed.number][1]
        epochs[-1] = msgspec.structs.replace(epochs[-1], is_over=True)
