"""The DistributedSamplers of a script: at which lines they were made, and what they share out."""

from __future__ import annotations

from collections import Counter
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from torch.utils.data.distributed import DistributedSampler

from ddpcheck.finding import Location
from ddpcheck.measures.shares import Share
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.feeds import Feed, distributed_sampler
from ddpcheck.watch.replaced import Replaced

KEPT_SHARES = 64
KEPT_EPOCHS = 4

Place = tuple[Location | None, int]


class Made:
    """Which line made each sampler, as the how manieth of that line."""

    def __init__(self) -> None:
        self._places: WeakKeyDictionary[Any, Place] = WeakKeyDictionary()
        self._counts: Counter[Location | None] = Counter()

    def watch(self, replaced: Replaced) -> None:
        """Hear of each one, until what was replaced is put back."""
        replaced.tell_after(DistributedSampler, "__init__", self._made)

    def place_of(self, sampler: object) -> Place | None:
        """Return the line and the number there, None of what was made before."""
        return self._places.get(sampler)

    def _made(self, _result: object, arguments: Any, _named: object) -> None:
        line = users_line()
        self._places[arguments[0]] = (line, self._counts[line])
        self._counts[line] += 1


# Samplers may be made before there is anything to tell, and are few.
MADE = Made()


class Shares:
    """A part of an observer: the shares that were trained on."""

    def __init__(self) -> None:
        self._now: dict[int, Share] = {}
        self._taken: dict[Place, Share] = {}
        self._fed: int | None = None

    def taken(self) -> tuple[Share, ...]:
        """Return what was trained on, in the order of first use."""
        return tuple(self._taken.values())

    def on_epoch(self, feed: Feed) -> None:
        """Look at a loader's sampler when an iteration begins."""
        sampler = distributed_sampler(feed.loader())
        share = _share(sampler, feed) if sampler is not None else None
        self._now.pop(feed.number, None)
        if share is not None:
            self._now[feed.number] = share

    def on_fed(self, feed: Feed) -> None:
        """Note whose batch comes next."""
        self._fed = feed.number

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note that this iteration is trained on: an evaluation may share out in another way."""
        share = self._now.pop(self._fed, None) if self._fed is not None else None
        if share is None or len(self._taken) == KEPT_SHARES:
            return
        place = share.location, share.number
        known = self._taken.get(place)
        if known is not None:
            epochs = (*known.epochs, *share.epochs)[:KEPT_EPOCHS]
            share = msgspec.structs.replace(known, epochs=epochs)
        self._taken[place] = share


def _share(sampler: DistributedSampler[Any], feed: Feed) -> Share | None:
    # One that draws in a way of its own may have other uses for a seed.
    place = MADE.place_of(sampler)
    if place is None or type(sampler).__iter__ is not DistributedSampler.__iter__:
        return None
    options = (sampler.num_replicas, sampler.rank, bool(sampler.shuffle), int(sampler.seed))
    return Share(place[0], place[1], feed.samples, *options, (int(sampler.epoch),))
