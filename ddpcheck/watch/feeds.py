"""What DataLoaders hand out: which loader, in which order, to which line of the user's."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from dis import get_instructions
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch.utils.data.distributed import DistributedSampler

import ddpcheck
from ddpcheck.finding import Location
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.replaced import Around

_NOT_THE_ITERATING = (ddpcheck.__path__[0], torch.__path__[0])


@dataclass(eq=False)
class Feed:
    """One DataLoader: its number in the order of first use, and where it was first iterated.

    ``shuffles`` is whether a DistributedSampler shuffles for it, whose epoch is ``epoch``, and its
    samples depend on that;
    ``is_shared`` whether such a sampler, or accelerate, gives each of ``replicas`` a part of the
    dataset, which is known by ``id`` and has ``samples`` (0: it does not say). ``cycles`` is whether
    the script begins it anew as soon as it is at its end, as who counts steps does, not epochs;
    ``loader()`` is the DataLoader, while it lives.
    """

    number: int
    location: Location | None
    shuffles: bool = False
    epoch: int = 0
    epochs: int = 0
    is_shared: bool = False
    dataset_id: int = 0
    replicas: int = 1
    samples: int = 0
    cycles: bool = False
    loader: Callable[[], Any] = lambda: None
    # The generator in which it came to its end, until it begins anew.
    ended_in: FrameType | None = None


class Feeds:
    """Follows the iterators of DataLoaders, which have no hooks, by what ``wraps`` lists.

    Tells ``epoch(feed)`` when an iteration begins, ``indices(feed, indices)`` when the sampler has
    chosen the samples of a batch (workers are given them ahead), ``asked(feed)`` when the script asks
    for a batch, ``fed(feed)`` and then ``batch`` when it is handed out, ``drained(feed)`` when there
    are no more. While ``keeps`` says so, ``again`` can tell it once more to who begins to listen.
    """

    def __init__(
        self,
        emit: Callable[..., None],
        step: Callable[[], int],
        keeps: Callable[[], bool] = lambda: False,
    ) -> None:
        self._emit = emit
        self._step = step
        self._keeps = keeps
        self._kept: list[tuple[str, Feed, tuple[Any, ...]]] = []
        self._feeds: WeakKeyDictionary[Any, Feed] = WeakKeyDictionary()
        self._count = 0
        self._of: WeakKeyDictionary[Any, Feed] = WeakKeyDictionary()
        self._loaders: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.loader: Any = ()

    def wraps(self) -> list[tuple[str, Around]]:
        """Return the names of methods of DataLoader's iterators, and what goes around each."""
        return [
            ("__init__", self._beginning),
            ("_reset", self._resetting),
            ("_next_index", self._choosing),
            ("__next__", self._handing_out),
        ]

    def stepped(self) -> None:
        """Hear of an optimizer's step: what was handed out before it is nothing to tell again."""
        self._kept.clear()

    def again(self) -> None:
        """Tell of the iterations that began since the last step; others are not followed any more."""
        kept, self._kept = self._kept, []
        fresh = {id(feed) for event, feed, _ in kept if event == "epoch"}
        for own, feed in list(self._of.items()):
            if id(feed) not in fresh:
                del self._of[own]
        for event, feed, told in kept:
            if id(feed) in fresh:
                self._tell(event, feed, *told)

    def _tell(self, event: str, feed: Feed, *told: Any) -> None:
        if self._keeps():
            self._kept.append((event, feed, told))
        if event == "batch":  # its loader was told of by ``fed``
            self._emit("batch", self._step(), *told)
        else:
            self._emit(event, feed, *told)

    def _beginning(self, original: Around, own: Any, loader: Any) -> None:
        self._begin_epoch(own, loader)
        original(own, loader)

    def _resetting(self, original: Around, own: Any, loader: Any, first_iter: bool = False) -> None:
        if not first_iter:  # workers that stay begin another epoch
            self._begin_epoch(own, loader)
        original(own, loader, first_iter)

    def _begin_epoch(self, own: Any, loader: Any) -> None:
        feed = self._feeds.get(loader)
        if feed is None:
            feed = self._feeds[loader] = Feed(self._count, users_line(), loader=ref(loader))
            self._count += 1
        sampler = distributed_sampler(loader)
        feed.shuffles = sampler is not None and bool(sampler.shuffle) and _asks_for(loader.dataset)
        feed.epoch = sampler.epoch if sampler is not None else 0
        feed.replicas = sampler.num_replicas if sampler is not None else _accelerated(loader)
        feed.is_shared = feed.replicas > 1
        feed.samples = _length(loader.dataset)
        feed.dataset_id = id(loader.dataset)
        feed.cycles = feed.cycles or _begins_at_the_end(feed)
        feed.ended_in = None
        self._of[own] = feed
        self._loaders[own] = loader
        feed.epochs += 1
        self._tell("epoch", feed)

    def _choosing(self, original: Around, own: Any) -> Any:
        indices = original(own)
        feed = self._of.get(own)
        if feed is not None:
            self._tell("indices", feed, indices)
        return indices

    def _handing_out(self, original: Around, own: Any) -> Any:
        feed = self._of.get(own)
        # An evaluation is no training: what it takes, and how much of it, is another matter.
        is_training = torch.is_grad_enabled()
        if feed is not None and is_training:
            self._tell("asked", feed)
        try:
            batch = original(own)
        except StopIteration:
            if feed is not None:
                feed.ended_in = _generator()
                self._tell("drained", feed)
            raise
        if feed is not None and is_training:
            self.loader = self._loaders[own]
            self._tell("fed", feed)
            self._tell("batch", feed, batch)
        return batch


def _begins_at_the_end(feed: Feed) -> bool:
    """Return whether the script handles the end, or is in the generator that came to it."""
    is_handled = isinstance(sys.exception(), StopIteration)
    return is_handled or (feed.ended_in is not None and feed.ended_in is _generator())


def _generator() -> FrameType | None:
    """Return the frame that iterates over a DataLoader, if it is a generator's."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_ITERATING):
        frame = frame.f_back
    is_generator = frame is not None and bool(frame.f_code.co_flags & inspect.CO_GENERATOR)
    return frame if is_generator else None


def distributed_sampler(loader: Any) -> DistributedSampler[Any] | None:
    """Return the loader's own, or that of its batches, if it has one."""
    of_batches = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    for sampler in (getattr(loader, "sampler", None), of_batches):
        if isinstance(sampler, DistributedSampler):
            return sampler
    return None


def _accelerated(loader: Any) -> int:
    """Return among how many ranks accelerate's BatchSamplerShard deals the batches out."""
    count = getattr(getattr(loader, "batch_sampler", None), "num_processes", 1)
    return count if isinstance(count, int) else 1


def _asks_for(dataset: Any) -> bool:
    """Return whether the dataset looks at the index that it is given, or it is not known.

    One that draws a place in a text by itself, say, has other samples in the same order.
    """
    code = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)
    if code is None or code.co_argcount <= 1:
        return True
    index = code.co_varnames[1]
    return index in code.co_cellvars or any(each.argval == index for each in get_instructions(code))


def _length(dataset: Any) -> int:
    # A length is the user's code, and only asked for to compare with.
    with suppress(Exception):
        return len(dataset)
    return 0
