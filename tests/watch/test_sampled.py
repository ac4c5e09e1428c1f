"""Which samples batches are made of, followed from the sampler to the loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler, TensorDataset

from ddpcheck.measures.sampled import Sampled
from ddpcheck.watch.batches import TrainedOn
from ddpcheck.watch.feeds import Feed
from ddpcheck.watch.sampled import SampledOn
from ddpcheck.watch.stream import EventStream

X = torch.randn(24, 5, generator=torch.Generator().manual_seed(1))
DATA = TensorDataset(X, torch.arange(24))


class Own(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(24))


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(X)


class Training:
    def __init__(self, dataset: Any = DATA, **options: Any) -> None:
        self.sampled, self.trained = SampledOn(), TrainedOn()
        self.stream = EventStream({"": Observer(self.trained, self.sampled)})
        self.loader = DataLoader(dataset, batch_size=4, **options)
        self.feed = Feed(0, None, loader=lambda: self.loader)
        self.stream.emit("epoch", self.feed)

    def choose(self, *indices: Any, feed: Feed | None = None) -> None:
        self.stream.emit("indices", feed or self.feed, list(indices))

    def step(self, batch: Any, given: Any = None, feed: Feed | None = None) -> None:
        self.stream.emit("fed", feed or self.feed)
        self.stream.emit("batch", 0, batch)
        self.stream.emit("inputs", 0, ((batch if given is None else given,), {}))
        self.stream.emit("loss", 0, None)

    def told(self) -> Sampled:
        assert not self.stream.raised
        return self.sampled.told(self.trained)


class Observer:
    def __init__(self, *parts: Any) -> None:
        self.parts = parts


def seen(noise: float, indices: Sequence[Sequence[int]], **options: Any) -> Sampled:
    training = Training(**options)
    for each in indices:
        training.choose(*each)
    for each in indices:
        training.step([X[list(each)] + noise, torch.tensor(each)])
    return training.told()


FIRST, SECOND = (0, 1, 2, 3), (7, 5, 6, 4)


def test_samples_stay_the_same_whatever_is_done_to_them() -> None:
    one, other = seen(0.1, [FIRST, SECOND]), seen(0.2, [FIRST, SECOND])
    assert one.draws == other.draws
    assert len(set(one.draws)) == 2
    pairs = zip(one.tensors, other.tensors, strict=True)
    assert all(a[0] != b[0] and a[1] == b[1] for a, b in pairs)
    assert not one.is_own
    assert seen(0.1, [FIRST, FIRST]).draws != one.draws
    assert seen(0.1, [FIRST, SECOND], dataset=TensorDataset(X + 1)).draws != one.draws


def test_a_sampler_of_the_script_s_own() -> None:
    assert seen(0.1, [FIRST], sampler=Own()).is_own
    assert seen(0.1, [FIRST], shuffle=True).is_own is False


def test_what_is_not_known() -> None:
    of_places = TensorDataset(torch.arange(24))
    for dataset in (of_places, Stream(), [1, 2]):
        assert seen(0.1, [FIRST], dataset=dataset).draws == ("",)


def test_a_part_of_a_batch_is_not_the_batch() -> None:
    training = Training()
    training.choose(*FIRST)
    training.choose(*SECOND)
    training.step([X[:4]], X[:2])
    training.step([X[4:8]], X[4:8])
    assert [bool(draw) for draw in training.told().draws] == [False, True]


def test_an_evaluation_between_takes_nothing_away() -> None:
    training = Training()
    other = Feed(1, None, loader=lambda: training.loader)
    training.stream.emit("epoch", other)
    training.choose(*FIRST)
    training.choose(*SECOND, feed=other)
    training.stream.emit("fed", other)
    training.stream.emit("batch", 0, X)
    training.step([X[:4]])
    assert training.told().draws == seen(0, [FIRST]).draws


def test_what_was_chosen_ahead_is_gone_with_its_iteration() -> None:
    training = Training()
    training.choose(*SECOND)
    training.stream.emit("epoch", training.feed)
    training.choose(*FIRST)
    training.step([X[:4]])
    assert training.told().draws == seen(0, [FIRST]).draws


def test_without_indices_there_is_nothing() -> None:
    training = Training()
    training.step([X[:4]])
    assert training.told().draws == ("",)
