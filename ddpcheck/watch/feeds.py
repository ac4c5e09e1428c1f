"""What DataLoaders hand out: which loader, in which order, to which line of the user's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch.utils.data import DataLoader

from ddpcheck.finding import Location
from ddpcheck.watch.callsite import users_line

Around = Callable[..., Any]


@dataclass(eq=False)
class Feed:
    """One DataLoader: its number in the order of first use, and where it was first iterated."""

    number: int
    loader: DataLoader[Any]
    location: Location | None
    epochs: int = 0


class Feeds:
    """Follows the iterators of DataLoaders, which have no hooks, by what ``wraps`` lists.

    Tells ``epoch(feed)`` when an iteration begins, ``indices(feed, indices)`` when the sampler has
    chosen the samples of a batch (workers are given them ahead), ``fed(feed)`` and then ``batch``
    when a batch is handed out.
    """

    def __init__(self, emit: Callable[..., None], step: Callable[[], int]) -> None:
        self._emit = emit
        self._step = step
        self._feeds: dict[int, Feed] = {}
        self._of: WeakKeyDictionary[Any, Feed] = WeakKeyDictionary()
        self.current: Feed | None = None

    def wraps(self) -> list[tuple[str, Around]]:
        """Return the names of methods of DataLoader's iterators, and what goes around each."""
        return [
            ("__init__", self._beginning),
            ("_reset", self._resetting),
            ("_next_index", self._choosing),
            ("__next__", self._handing_out),
        ]

    def _beginning(self, original: Around, own: Any, loader: Any) -> None:
        self._begin_epoch(own, loader)
        original(own, loader)

    def _resetting(self, original: Around, own: Any, loader: Any, first_iter: bool = False) -> None:
        if not first_iter:  # workers that stay begin another epoch
            self._begin_epoch(own, loader)
        original(own, loader, first_iter)

    def _begin_epoch(self, own: Any, loader: Any) -> None:
        # The loader is kept: another one must not get its number.
        feed = self._feeds.get(id(loader))
        if feed is None:
            feed = Feed(len(self._feeds), loader, users_line())
            self._feeds[id(loader)] = feed
        self._of[own] = feed
        feed.epochs += 1
        self._emit("epoch", feed)

    def _choosing(self, original: Around, own: Any) -> Any:
        indices = original(own)
        feed = self._of.get(own)
        if feed is not None:
            self._emit("indices", feed, indices)
        return indices

    def _handing_out(self, original: Around, own: Any) -> Any:
        batch = original(own)
        self.current = self._of.get(own)
        if self.current is not None:
            self._emit("fed", self.current)
        self._emit("batch", self._step(), batch)
        return batch
