"""What is drawn while samples are fetched is seen in a rank and in its workers, and nothing is moved."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from contexts import context_with
from torch.utils.data import DataLoader, Dataset, IterableDataset

from ddpcheck.check import Skip
from ddpcheck.checks.data.same_augmentation import Facts, Observer, judge
from ddpcheck.measures.drawn import Drawn
from ddpcheck.watch.hooks import Hooks
from ddpcheck.watch.stream import EventStream

COUNT, BATCH = 24, 4
Draw = Any


def seeded(index: int) -> float:
    random.seed(index)
    return random.random()


class Drawing(Dataset[torch.Tensor]):
    """Draws from one generator for each sample, or from none."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> torch.Tensor:
        draws: dict[str, Draw] = {
            "torch": lambda: float(torch.rand(())),
            "random": random.random,
            "numpy": np.random.rand,
            "own": lambda: random.Random(index).random(),
            "seeded": lambda: seeded(index),
            "": lambda: 0.0,
        }
        return torch.tensor([index, draws[self.kind]()])


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.fixture(autouse=True)
def left_as_they_were() -> Iterator[None]:
    """Put the generators of this process back after a test."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def batches(loader: Any, epochs: int = 1) -> list[torch.Tensor]:
    """Return all batches; each is trained on."""
    seen = []
    for _ in range(epochs):
        for batch in loader:
            seen.append(batch)
            torch.ones((), requires_grad=True).mul(1).backward()
    return seen


def live_with(loader: Any) -> Any:
    return SimpleNamespace(ddp=None, loader=loader)


def facts_of(loader: Any, *, seed: int = 3, epochs: int = 1) -> tuple[Facts, list[torch.Tensor]]:
    """Return what the observer of one rank sees of a training on this loader, and its batches."""
    observer = Observer(context_with(watches=True))
    observer.on_built(live_with(loader))
    hooks = Hooks(lambda _device: EventStream({"x": observer}), 0, lambda: None)
    seed_all(seed)
    hooks.install()
    try:
        seen = batches(loader, epochs)
    finally:
        hooks.close()
    return observer.facts(), seen


def drawn(kind: str, *, workers: int = 0, **more: Any) -> tuple[Drawn, ...]:
    loader = DataLoader(Drawing(kind), BATCH, num_workers=workers)
    return facts_of(loader, **more)[0].draws


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["torch", "random", "numpy"])
def test_each_generator_is_seen(kind: str, workers: int) -> None:
    draws = drawn(kind, workers=workers)
    assert {each.kind for each in draws} == {kind}
    assert {each.place[1] for each in draws} == (set(range(workers)) or {-1})
    assert len(draws) == COUNT // BATCH
    assert all(each.samples == BATCH and each.draws >= BATCH for each in draws)


class Keeping(Dataset[torch.Tensor]):
    """Draws from a generator that it keeps, within what it does to each sample."""

    def __init__(self, generator: Any, draw: Callable[[Any], object]) -> None:
        self.steps = {"augment": [Noise(generator, draw)]}

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> torch.Tensor:
        for step in self.steps["augment"]:
            step()
        return torch.tensor([index])


class Noise:
    def __init__(self, generator: Any, draw: Callable[[Any], object]) -> None:
        self.generator, self.draw = generator, draw

    def __call__(self) -> None:
        self.draw(self.generator)


KEPT: dict[str, tuple[Callable[[int], Any], Callable[[Any], object]]] = {
    "random": (random.Random, lambda own: own.random()),
    "numpy": (np.random.RandomState, lambda own: own.rand(2)),
    "numpy's new": (np.random.default_rng, lambda own: own.integers(7, size=3)),
    "philox": (lambda seed: np.random.Generator(np.random.Philox(seed)), lambda own: own.normal()),
    "torch": (
        lambda seed: torch.Generator().manual_seed(seed),
        lambda own: torch.rand(2, generator=own),
    ),
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", list(KEPT))
def test_a_generator_that_the_dataset_keeps(kind: str, workers: int) -> None:
    make, draw = KEPT[kind]
    draws = facts_of(DataLoader(Keeping(make(5), draw), BATCH, num_workers=workers))[0].draws
    assert {each.kind for each in draws} == {"the dataset's own"}
    assert len(draws) == COUNT // BATCH
    assert all(each.is_per_sample for each in draws)
    assert len({each.state for each in draws}) >= COUNT // BATCH / max(workers, 1)


@pytest.mark.parametrize(("seeds", "count"), [((3, 3), 1), ((3, 4), 0)])
@pytest.mark.parametrize("kind", list(KEPT))
def test_ranks_whose_datasets_keep_the_same(kind: str, seeds: tuple[int, int], count: int) -> None:
    make, draw = KEPT[kind]
    facts = {
        rank: facts_of(
            DataLoader(Keeping(make(seed), draw), BATCH, sampler=range(rank, COUNT, 2)), seed=rank
        )[0]
        for rank, seed in enumerate(seeds)
    }
    assert len(judge(facts)) == count


def test_a_draw_for_the_whole_batch_is_counted_as_one() -> None:
    rng = np.random.default_rng(5)
    once = Keeping(rng, lambda own: own.random() if own.bit_generator.state == first else None)
    first = rng.bit_generator.state
    (seen,) = facts_of(DataLoader(once, BATCH))[0].draws
    assert (seen.draws, seen.is_per_sample) == (1, False)


@pytest.mark.parametrize("generator", [random.SystemRandom(), random, np.random, torch.rand])
def test_what_is_no_generator_of_its_own_is_left_alone(generator: Any) -> None:
    assert facts_of(DataLoader(Keeping(generator, id), BATCH))[0].draws == ()


@pytest.mark.parametrize("kind", ["", "own"])
def test_nothing_is_seen_where_no_common_generator_is_drawn_from(kind: str) -> None:
    assert drawn(kind) == ()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [True, False])
def test_no_number_changes(workers: int, shuffle: bool) -> None:
    loader = DataLoader(Drawing("torch"), BATCH, shuffle=shuffle, num_workers=workers)
    watched = facts_of(loader, epochs=2)[1]
    state = torch.get_rng_state()
    seed_all(3)
    assert all(map(torch.equal, watched, batches(loader, 2)))
    assert torch.equal(state, torch.get_rng_state())


def test_workers_that_are_spawned_work_and_tell_nothing() -> None:
    loader = DataLoader(Drawing("torch"), BATCH, num_workers=1, multiprocessing_context="spawn")
    facts, seen = facts_of(loader)
    assert (len(seen), facts.draws, facts.has_workers) == (COUNT // BATCH, (), True)


def test_workers_that_stay_are_seen_once() -> None:
    loader = DataLoader(Drawing("numpy"), BATCH, num_workers=2, persistent_workers=True)
    facts, seen = facts_of(loader, epochs=2)
    assert len(seen) == 2 * COUNT // BATCH
    assert {each.place[0] for each in facts.draws} == {0}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("seeds", "count"), [((3, 3), 1), ((3, 4), 0)])
def test_ranks_of_one_seed_are_found(workers: int, seeds: tuple[int, int], count: int) -> None:
    loaders = [
        DataLoader(Drawing("torch"), BATCH, sampler=range(rank, COUNT, 2), num_workers=workers)
        for rank in (0, 1)
    ]
    facts = {rank: facts_of(loaders[rank], seed=seeds[rank])[0] for rank in (0, 1)}
    assert len(judge(facts)) == count


def test_a_dataset_that_seeds_each_sample_is_silent() -> None:
    facts = {
        rank: facts_of(DataLoader(Drawing("seeded"), BATCH, sampler=range(rank, COUNT, 2)))[0]
        for rank in (0, 1)
    }
    assert judge(facts) == []


class Stream(IterableDataset[torch.Tensor]):
    """Has no length, and draws."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.rand(COUNT))


def test_a_stream_is_left_out() -> None:
    facts, seen = facts_of(DataLoader(Stream(), BATCH))
    assert (len(seen), facts.draws) == (COUNT // BATCH, ())


def test_an_evaluation_is_left_out() -> None:
    loader = DataLoader(Drawing("torch"), BATCH)
    observer = Observer(context_with(watches=True))
    observer.on_built(live_with(loader))
    hooks = Hooks(lambda _device: EventStream({"x": observer}), 0, lambda: None)
    hooks.install()
    try:
        with torch.no_grad():
            assert len(list(loader)) == COUNT // BATCH
    finally:
        hooks.close()
    assert observer.facts().draws == ()


def test_without_a_loader_it_is_a_skip() -> None:
    with pytest.raises(Skip, match="no batch"):
        Observer(context_with(watches=True)).facts()
