"""The samples that datasets hold, by their content: the same ones are known on every rank.

A sample of a dataset that keeps its data in tensors, arrays or lists (of files, or of files and their
classes, say) is known without calling the dataset, which would be the user's code.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch
from torch.utils.data import IterableDataset, Subset, SubsetRandomSampler, TensorDataset

from ddpcheck.measures.held_out import KEPT_COUNT, Seen
from ddpcheck.watch.contents import content_of

if TYPE_CHECKING:
    from ddpcheck.finding import Location
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.feeds import Feed

# What is looked at: so many loaders, samples of a dataset, numbers of each sample, and bytes.
KEPT_FEEDS = 32
KEPT_SAMPLES = 1_000_000
KEPT_NUMBERS = 16
KEPT_BYTES = 2**30
# Numbers are mixed as splitmix64 does it (Steele, Lea and Flood, OOPSLA 2014), and 40 bits kept.
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
KEPT_BITS = 40

# Of a record, what may be beside a name.
PLAIN = {type(None), bool, int, float}

Numbers = np.ndarray[Any, np.dtype[np.uint64]]


class Rows:
    """An observer of loaders: which samples are trained on, and which are only iterated over."""

    def __init__(self) -> None:
        self._group: tuple[int, ...] = ()
        self._samples: dict[int, tuple[int, ...]] = {}
        self._trained: set[int] = set()
        self._drained: dict[int, Location | None] = {}
        self._fed: int | None = None

    def on_built(self, live: Trained) -> None:
        """Remember who trains together: at the end of the script there may be no group."""
        from ddpcheck.watch.replicas import group_of

        if live.ddp is not None:
            self._group = group_of(live.ddp)

    def on_epoch(self, feed: Feed) -> None:
        """Look at the samples of a loader, the first time that it is iterated over."""
        if feed.number not in self._samples and len(self._samples) < KEPT_FEEDS:
            self._samples[feed.number] = ()
            with suppress(Exception):  # a dataset of the user's may hold anything
                self._samples[feed.number] = samples_of(feed.loader())

    def on_fed(self, feed: Feed) -> None:
        """Note whose batch comes next."""
        self._fed = feed.number

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note that it is trained on."""
        if self._fed is not None:
            self._trained.add(self._fed)

    def on_drained(self, feed: Feed) -> None:
        """Note what came to its end: an evaluation, if it is not trained on."""
        self._drained.setdefault(feed.number, feed.location)

    def seen(self) -> Seen:
        """Return what is known of the samples."""
        held = [n for n in sorted(self._drained) if n not in self._trained and self._samples.get(n)]
        location = self._drained[held[0]] if held else None
        return Seen(self._kept(self._trained), self._kept(held), self._group, location)

    def _kept(self, feeds: Iterable[int]) -> tuple[int, ...]:
        every = {sample for number in feeds for sample in self._samples.get(number, ())}
        return tuple(heapq.nsmallest(KEPT_COUNT, every))


def samples_of(loader: Any) -> tuple[int, ...]:
    """Return digests of some of the samples that a loader chooses from, () where nothing is known."""
    dataset, chosen = loader.dataset, None
    if isinstance(dataset, IterableDataset):
        return ()
    if isinstance(loader.sampler, SubsetRandomSampler):
        chosen = np.asarray(loader.sampler.indices)
    while isinstance(dataset, Subset):
        indices = np.asarray(dataset.indices)
        dataset, chosen = dataset.dataset, indices if chosen is None else indices[chosen]
    digests = _digests(dataset)
    if digests is None:
        return ()
    own = np.unique(digests if chosen is None else digests[chosen])
    return tuple(own[:KEPT_COUNT].tolist())


def tells_samples(dataset: Any) -> bool:
    """Return whether it keeps something of each of its samples, by which they are known."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    if isinstance(dataset, IterableDataset):
        return False
    count = len(dataset)
    return count > 1 and any(len(each) == count for each in _columns(dataset))


def _digests(dataset: Any) -> Numbers | None:
    """Return a number for each sample, [samples]."""
    count = len(dataset)
    if not 1 < count <= KEPT_SAMPLES:
        return None
    columns = [_of_column(each) for each in _columns(dataset) if len(each) == count]
    if not columns:
        columns = [_of_column(each) for each in _places(dataset, count)]
    if not columns:
        return None
    digests = np.zeros(count, np.uint64)
    for column in columns:
        digests = _mixed(digests + column)
    return digests >> np.uint64(64 - KEPT_BITS)


def _columns(dataset: Any) -> Iterator[Any]:
    held = dataset.tensors if isinstance(dataset, TensorDataset) else vars(dataset).values()
    for each in {id(own): own for own in held}.values():  # torchvision keeps one list twice
        if type(each) is torch.Tensor:
            is_here = each.device.type == "cpu" and not each.is_complex()
            if is_here and _tells(each, is_floating=each.is_floating_point()):
                yield each.detach()
        elif type(each) is np.ndarray:
            kind = each.dtype.kind
            if kind in "biuf" and _tells(each, is_floating=kind == "f"):
                yield each
        elif type(each) is list and _are_names(each):
            yield each


def _are_names(entries: list[Any]) -> bool:
    """Return whether they are texts, paths, or records with one: a file and its class, say."""
    fields = _fields(entries)
    named = {each for each in fields if each is str or issubclass(each, PurePath)}
    return bool(named) and fields - named <= (PLAIN if _are_records(entries) else set())


def _are_records(entries: list[Any]) -> bool:
    return set(map(type, entries)) <= {tuple, list, dict}


def _fields(entries: list[Any]) -> set[type]:
    """Return the types that there are, in records or by themselves."""
    if not _are_records(entries):
        return set(map(type, entries))
    parts = (each.values() if type(each) is dict else each for each in entries)
    return set(map(type, chain.from_iterable(parts)))


def _places(dataset: Any, count: int) -> Iterator[list[Any]]:
    """Yield lists of places, several numbers each, in data that the dataset keeps in other tensors.

    What they mean is known together with these alone: a rank may have data of its own, such as an
    open file, whose content is not known, or that is elsewhere, and the tensors only its means.
    """
    held = list(vars(dataset).values())
    lists = [each for each in held if type(each) is list and len(each) == count]
    records = [each for each in lists if _are_records(each) and _fields(each) == {int}]
    data = [each for each in _columns(dataset) if not isinstance(each, list)] if records else []
    if sum(each.nbytes // each.itemsize for each in data) >= count and content_of(held):
        content = content_of(data)
        yield from ([(content, *own) for own in each] for each in records)


def _tells(column: Any, *, is_floating: bool) -> bool:
    # One whole number a sample is a class, or a place in data that may be the rank's own. What is
    # larger than that may be mapped from a file, which nobody is to read for this.
    dimensions = len(column.shape)
    is_telling = dimensions > 1 or (dimensions == 1 and is_floating)
    return is_telling and bool(column.nbytes <= KEPT_BYTES)


def _of_column(column: Any) -> Numbers:
    if isinstance(column, list):
        return np.array([crc32(str(each).encode()) for each in column], np.uint64)
    flat = column.reshape(len(column), -1)
    some = flat[:, :: max(1, flat.shape[1] // KEPT_NUMBERS)][:, :KEPT_NUMBERS]
    values = some.to(torch.float64).numpy() if isinstance(some, torch.Tensor) else some
    numbers = np.ascontiguousarray(values, np.float64).view(np.uint64)
    digests = np.zeros(len(column), np.uint64)
    for place in range(numbers.shape[1]):
        digests = _mixed(digests + numbers[:, place])
    return digests


def _mixed(numbers: Numbers) -> Numbers:
    """Return numbers of 64 bits, each of which says nothing of what it was."""
    numbers = numbers + np.uint64(GOLDEN)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(FIRST)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(SECOND)
    last: Numbers = numbers ^ (numbers >> np.uint64(31))
    return last
