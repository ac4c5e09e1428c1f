"""Watch what a loader's workers hand over, batch by batch, holding on to none of it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Any

from ddpcheck.measures.loader import Loader
from ddpcheck.measures.words import brief

if TYPE_CHECKING:
    import torch
    from torch.multiprocessing.reductions import StorageWeakRef

    from ddpcheck.target.live import Trained
    from ddpcheck.watch.feeds import Feed

# More would only take memory, and time at the end.
KEPT_BATCHES = 1024


class LoaderWatch:
    """An observer of the batches that arrive; ``signs`` are words of the errors it remembers."""

    def __init__(self, signs: tuple[str, ...] = ()) -> None:
        self._signs = signs
        self._loader: Any = None
        # Weakly: a script may let go of a loader, and its workers, before it trains.
        self._asked: Callable[[], Any] = _nothing
        self._feed: Feed | None = None
        self._is_own = True
        self._batches: list[list[StorageWeakRef]] = []
        self._bytes = 0
        self._tensors = 0
        self._failure = ""

    @property
    def handlers(self) -> tuple[Any, Any, Any, Any, Any]:
        """Return what hears of the model, a loader that is asked, one that hands out, a batch, an error."""
        return self.on_built, self.on_asked, self.on_fed, self.on_batch, self.on_raise

    @property
    def absence(self) -> str:
        """Return why ``seen`` has nothing to tell."""
        return "no loader was seen" if self._loader is None else "the loader has no workers"

    def on_built(self, live: Trained) -> None:
        """Remember the loader."""
        self._loader = live.loader

    def on_asked(self, feed: Feed) -> None:
        """Remember what is asked for a batch: of a script's first one that fails, nothing else tells."""
        self._asked = feed.loader

    def on_fed(self, feed: Feed) -> None:
        """Leave out what comes of other loaders than the first one that was trained on."""
        self._feed = self._feed or feed
        self._is_own = feed is self._feed

    def on_batch(self, _step: int, batch: object) -> None:
        """Measure the batch, and remember what of it is shared with a worker, without keeping it."""
        from torch.multiprocessing.reductions import StorageWeakRef

        if not self._is_own or len(self._batches) >= KEPT_BATCHES:
            return
        storages = _storages(batch)
        self._bytes = max(self._bytes, sum(_whole_pages(each.nbytes()) for each in storages))
        self._tensors = max(self._tensors, len(storages))
        self._batches.append([StorageWeakRef(each) for each in storages if each.is_shared()])

    def on_raise(self, _step: int, error: BaseException) -> None:
        """Remember the line that tells of the end of the room, if one does."""
        lines = (line.strip() for text in _chain(error) for line in text.splitlines())
        self._failure = next((brief(x, 300) for x in lines if any(s in x for s in self._signs)), "")
        if self._loader is None:
            self._loader = self._asked()

    def seen(self) -> Loader | None:
        """Return what was seen, or None where the loader has no workers, or was not built."""
        workers = int(getattr(self._loader, "num_workers", 0) or 0)
        if not workers:
            return None
        from ddpcheck.watch.lengths import batches_in

        return Loader(
            workers=workers,
            prefetch=int(getattr(self._loader, "prefetch_factor", None) or 2),
            epoch_batches=batches_in(self._loader),
            batch_bytes=self._bytes,
            batch_tensors=self._tensors,
            keeps_all=self._keeps_all(),
            failure=self._failure,
        )

    def _keeps_all(self) -> bool:
        # Of a single batch, nobody can say whether the next one would have taken its place.
        if len(self._batches) == 1 or not self._all_alive():
            return False
        gc.collect()
        return self._all_alive()

    def _all_alive(self) -> bool:
        alive = (any(not each.expired() for each in batch) for batch in self._batches)
        return bool(self._batches) and all(alive)


def _nothing() -> None:
    """Stand for a loader that is not there."""


def _storages(batch: object) -> list[torch.UntypedStorage]:
    """Return the memory of the batch's tensors on the CPU, each piece once."""
    import torch

    from ddpcheck.target.live import tensors_in

    tensors = (each for each in tensors_in(batch) if each.layout is torch.strided)
    storages = (each.untyped_storage() for each in tensors if each.device.type == "cpu")
    return list({each.data_ptr(): each for each in storages if each.nbytes()}.values())


def _whole_pages(count_bytes: int) -> int:
    return -(-count_bytes // PAGESIZE) * PAGESIZE


def _chain(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield str(error)
        error = error.__cause__ or error.__context__
