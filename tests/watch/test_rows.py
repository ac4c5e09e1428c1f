from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

from ddpcheck.finding import Location
from ddpcheck.measures.held_out import Seen
from ddpcheck.watch import replicas
from ddpcheck.watch.feeds import Feed
from ddpcheck.watch.rows import Rows, samples_of, tells_samples

HERE = Location("/train.py", 30, "validate")
X = torch.randn(30, 5, generator=torch.Generator().manual_seed(1))


class Holding(Dataset[Any]):
    """Keeps what it is given, and is never to be asked for a sample."""

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)
        self.of = "nothing"

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))

    def __getitem__(self, at: int) -> Any:
        raise AssertionError


class Stream(IterableDataset[Any]):
    def __init__(self) -> None:
        self.files = ["a", "b"]

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError


def samples(dataset: Any, **options: Any) -> set[int]:
    return set(samples_of(DataLoader(dataset, **options)))


@pytest.mark.parametrize(
    "held",
    [
        X,
        X.numpy(),
        X[:, 0],
        [f"{at}.png" for at in range(30)],
        [Path(f"{at}.png") for at in range(30)],
        [(f"{at}.png", at % 3) for at in range(30)],
        [{"image": f"{at}.png", "kind": at % 3, "weight": None} for at in range(30)],
        X.bfloat16(),
        X.numpy()[:, 0],
    ],
)
def test_a_sample_is_known_wherever_it_lies(held: Any) -> None:
    order = list(range(29, -1, -1))
    turned = [held[at] for at in order] if isinstance(held, list) else held[order]
    first, second = samples(Holding(x=held[:20])), samples(Holding(x=turned[:10]))
    assert len(first) == 20
    assert len(second) == 10
    assert first.isdisjoint(second)
    assert samples(Holding(x=turned)) == first | second


def test_places_are_known_by_the_data_that_they_are_of() -> None:
    places = [(at // 2, at % 2) for at in range(20)]
    first = samples(Holding(rows=places, table=X.reshape(30, 5, 1)))
    assert len(first) == 20
    assert samples(Holding(rows=places[:8], table=X.reshape(30, 5, 1))) < first
    assert samples(Holding(rows=places, table=X.reshape(30, 5, 1) + 1)).isdisjoint(first)


def test_a_list_that_is_held_twice_is_one_column() -> None:
    files = [(f"{at}.png", at) for at in range(30)]
    assert samples(Holding(samples=files, imgs=files)) == samples(Holding(samples=files))


@pytest.mark.parametrize(
    ("dataset", "tells"),
    [
        (TensorDataset(X), True),
        (Subset(Holding(y=[(f"{at}.png", at) for at in range(30)]), [1, 2]), True),
        (Holding(y=torch.arange(30)), False),
        (Holding(y=[1, 2], recording=X), False),
        (Stream(), False),
    ],
)
def test_whether_samples_are_known(dataset: Any, *, tells: bool) -> None:
    assert tells_samples(dataset) == tells


def test_chosen_ones() -> None:
    whole = TensorDataset(X, torch.arange(30) % 3)
    first = samples(TensorDataset(X[:10]))
    assert samples(whole, sampler=SubsetRandomSampler(range(10))) == first
    assert samples(Subset(whole, torch.arange(10))) == first  # type: ignore[arg-type]
    inner = Subset(whole, list(range(20)))
    assert samples(inner, sampler=SubsetRandomSampler(range(10))) == first
    assert samples(Subset(inner, list(range(10)))) == first


@pytest.mark.parametrize(
    "dataset",
    [
        Holding(y=torch.arange(30)),
        Holding(y=np.arange(30)),
        Holding(y=[{}, {}]),
        Holding(y=[(at, 1) for at in range(30)]),
        Holding(y=[(at, 1) for at in range(30)], means=torch.ones(3)),
        Holding(y=[(at, 1) for at in range(30)], means=X[:20], file=iter([])),
        Holding(y=[(f"{at}.png", {}) for at in range(30)]),
        Holding(y=[*"abc", 1]),
        Holding(x=X[:1]),
        Holding(x=X.to(torch.complex64)),
        Stream(),
    ],
)
def test_what_does_not_tell_a_sample(dataset: Any) -> None:
    assert samples(dataset) == set()


def test_nothing_is_moved(recwarn: pytest.WarningsRecorder) -> None:
    held = X.numpy().copy()
    held.flags.writeable = False
    before = torch.get_rng_state()
    samples(Holding(x=held))
    assert torch.equal(torch.get_rng_state(), before)
    assert not recwarn.list


def feed(number: int, dataset: Any) -> Feed:
    loader = DataLoader(dataset)
    return Feed(number, HERE, loader=lambda: loader)


def both(_ddp: object) -> tuple[int, int]:
    return 0, 1


def test_the_observer_tells_training_from_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "group_of", both)
    rows, train, held = Rows(), feed(0, TensorDataset(X[:20])), feed(1, TensorDataset(X[20:]))
    live: Any = SimpleNamespace(ddp=object())
    rows.on_built(live)
    for each in (train, held, feed(2, [1, 2])):
        rows.on_epoch(each)
    assert rows.seen() == Seen(group=(0, 1))
    rows.on_fed(train)
    rows.on_loss(0, None)
    for each in (train, held):
        rows.on_drained(each)
    seen = rows.seen()
    assert set(seen.trained) == samples(TensorDataset(X[:20]))
    assert set(seen.held_out) == samples(TensorDataset(X[20:]))
    assert (seen.group, seen.location) == ((0, 1), HERE)
