"""Whether random numbers are drawn while samples are fetched, and from which states of generators.

What forked workers see comes back in memory that they share with their rank; workers that are started
in another way tell nothing.
"""

from __future__ import annotations

import random
import sys
from array import array
from collections import Counter
from collections.abc import Iterator
from mmap import mmap
from struct import Struct
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import get_worker_info

from ddpcheck.measures.digests import short_digest
from ddpcheck.measures.drawn import KINDS, Drawn

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
# All three generators are a Mersenne Twister: so many draws, and its state is made anew.
TWISTER_DRAWS = 624
# Where torch keeps what is drawn next. Source: CPUGeneratorImplStateLegacy, CPUGeneratorImpl.cpp.
NEXT = slice(16, 24)
STATE = slice(24, 24 + 8 * TWISTER_DRAWS)

# A generator's numbers, and the place of the next one among them.
State = tuple[bytes, int]


class Draws:
    """An observer of the generators of torch, Python and NumPy around each fetch of samples."""

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
        self._before = _states() if self._slot() is not None else None

    def on_sampled(self, indices: object) -> None:
        """Look again, and keep what has moved."""
        slot = self._slot()
        if self._before is None or slot is None or _is_a_streams(indices):
            return
        pairs = zip(self._before, _states(), strict=True)
        drawn = [(_digest(before), _drawn(before, after)) for before, after in pairs]
        count = len(indices) if isinstance(indices, list | tuple) else 1
        told = (short_digest(repr(indices)).encode(), count)
        SLOT.pack_into(self._memory, slot, *told, *(each for pair in drawn for each in pair))
        self._count[self._place()[0]] += 1
        self._before = None

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


def _states() -> tuple[State, ...]:
    """Return the states of the generators, in the order of KINDS; reading them moves nothing."""
    of_torch = torch.get_rng_state().numpy().tobytes()
    *numbers, place = random.getstate()[1]
    return (
        (of_torch[STATE], int.from_bytes(of_torch[NEXT], "little")),
        (array("L", numbers).tobytes(), place),
        _numpys(),
    )


def _numpys() -> State:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return b"", 0
    name, numbers, place, *_ = numpy.random.get_state()
    return (numbers.tobytes(), int(place)) if name == "MT19937" else (b"", 0)


def _digest(state: State) -> bytes:
    numbers, place = state
    return short_digest(numbers + place.to_bytes(8, "little")).encode()


def _drawn(before: State, after: State) -> int:
    """Return how many numbers were drawn, at least."""
    if before[0] == after[0]:
        return max(0, after[1] - before[1])
    return (TWISTER_DRAWS - before[1]) % TWISTER_DRAWS + after[1]
