"""Whether random numbers are drawn while samples are fetched, and from which states of generators.

What forked workers see comes back in memory that they share with their rank; workers that are started
in another way tell nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from mmap import mmap
from struct import Struct
from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

from ddpcheck.measures.digests import short_digest
from ddpcheck.measures.drawn import KINDS, LEAST_DRAWS_COUNT, Drawn
from ddpcheck.watch.generators import OwnGenerators, State, digest, drawn, states

if TYPE_CHECKING:
    from ddpcheck.watch.feeds import Feed

# Kept of each rank: the first fetches of each worker, in the first iterations over loaders.
KEPT_ITERATIONS = 8
KEPT_WORKERS = 8
KEPT_FETCHES = 8
DIGEST_BYTES = 16
# What was fetched, how many samples, and for each generator its state before and the draws from it.
SLOT = Struct(f"<{DIGEST_BYTES}sI" + f"{DIGEST_BYTES}sI" * len(KINDS))
IN_RANK = -1


class Draws:
    """An observer of the generators around each fetch of samples."""

    def __init__(self) -> None:
        # Anonymous and shared: no file, and the workers that are forked later write to it as well.
        self._memory = mmap(-1, SLOT.size * KEPT_ITERATIONS * (1 + KEPT_WORKERS) * KEPT_FETCHES)
        self._feeds: list[Feed] = []
        self._newest: dict[Feed, int] = {}
        self._chosen = 0
        self._fed: int | None = None
        self._trained: set[int] = set()
        self._count: Counter[int] = Counter()
        self._before: tuple[State, ...] | None = None
        self._own: OwnGenerators | None = None

    @property
    def of_loaders(self) -> tuple[Any, Any, Any]:
        """Return what is to hear of an iteration, of the choice of samples, and of a batch."""
        return self.on_epoch, self.on_indices, self.on_fed

    @property
    def of_samples(self) -> tuple[Any, Any, Any]:
        """Return what is to hear before and after a fetch, and of a loss."""
        return self.on_sampling, self.on_sampled, self.on_loss

    def on_epoch(self, feed: Feed) -> None:
        """Begin another iteration; workers that are forked for it know it as the newest one."""
        self._newest[feed] = len(self._feeds)
        self._feeds.append(feed)

    def on_indices(self, feed: Feed, _indices: object) -> None:
        """Note whose samples come next where this process fetches them itself."""
        self._chosen = self._newest[feed]

    def on_fed(self, feed: Feed) -> None:
        """Note whose batch comes next."""
        self._fed = self._newest[feed]

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note that it was trained on: what an evaluation draws is another matter."""
        if self._fed is not None:
            self._trained.add(self._fed)

    def on_sampling(self) -> None:
        """Look at the generators before samples are fetched, here or in a worker."""
        self._before = states() if self._slot() is not None else None
        self._own = OwnGenerators(self._dataset()) if self._before is not None else None

    def on_sampled(self, indices: object) -> None:
        """Look again, and keep what has moved."""
        slot = self._slot()
        if self._before is None or self._own is None or slot is None or _is_a_streams(indices):
            return
        pairs = zip(self._before, states(), strict=True)
        found = [(digest(before), drawn(before, after)) for before, after in pairs]
        count = len(indices) if isinstance(indices, list | tuple) else 1
        found.append(self._own.moved(max(LEAST_DRAWS_COUNT, count)))
        told = (short_digest(repr(indices)).encode(), count)
        SLOT.pack_into(self._memory, slot, *told, *(each for pair in found for each in pair))
        self._count[self._place()[0]] += 1
        self._before = self._own = None

    def seen(self) -> Iterator[Drawn]:
        """Yield what was drawn for batches that were trained on."""
        for iteration in sorted(self._trained):
            for worker in range(IN_RANK, KEPT_WORKERS):
                for fetch in range(KEPT_FETCHES):
                    slot = _slot(iteration, worker, fetch)
                    if slot is not None:
                        yield from self._read(slot, (iteration, worker, fetch))

    @property
    def loop(self) -> Any:
        """Return the line of the first loop that was trained from."""
        return self._feeds[min(self._trained)].location if self._trained else None

    def _read(self, slot: int, place: tuple[int, int, int]) -> Iterator[Drawn]:
        indices, samples, *states = SLOT.unpack_from(self._memory, slot)
        for kind, state, draws in zip(KINDS, states[::2], states[1::2], strict=True):
            if samples and draws:
                yield Drawn(kind, place, state.decode(), indices.decode(), draws, samples)

    def _place(self) -> tuple[int, int]:
        """Return which iteration the fetch is of, and which worker's it is."""
        worker = get_worker_info()
        return (self._chosen, IN_RANK) if worker is None else (len(self._feeds) - 1, worker.id)

    def _dataset(self) -> Any:
        """Return what the samples are of; a worker has a copy of its own."""
        worker = get_worker_info()
        if worker is not None:
            return worker.dataset
        return getattr(self._feeds[self._chosen].loader(), "dataset", None)

    def _slot(self) -> int | None:
        iteration, worker = self._place()
        return _slot(iteration, worker, self._count[iteration])


def _is_a_streams(indices: object) -> bool:
    # Whether those of several ranks are other samples, or drawn for another purpose, is not known.
    return indices is None or (isinstance(indices, list) and None in indices)


def _slot(iteration: int, worker: int, fetch: int) -> int | None:
    if iteration >= KEPT_ITERATIONS or worker >= KEPT_WORKERS or fetch >= KEPT_FETCHES:
        return None
    return SLOT.size * ((iteration * (1 + KEPT_WORKERS) + worker + 1) * KEPT_FETCHES + fetch)
