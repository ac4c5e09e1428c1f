from types import SimpleNamespace
from typing import Any

import pytest
import torch
from contexts import context_with
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from ddpcheck.check import Skip
from ddpcheck.checks.data.epoch_not_set import Facts, Observer, Order, judge, summarize
from ddpcheck.finding import Location, Severity
from ddpcheck.watch.feeds import Feed

LOOP = Location("/train.py", 12, "train")
FIRST, SECOND = ("a", "b", "c"), ("c", "a", "b")


def ranks(*epochs: tuple[str, ...], samples: int = 12, world: int = 2) -> dict[int, Facts]:
    return {rank: Facts((Order(LOOP, epochs, samples),), 0) for rank in range(world)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(FIRST), id="one epoch"),
        pytest.param(ranks(FIRST, ()), id="the second has not begun"),
        pytest.param(ranks((), FIRST), id="the first gave nothing"),
        pytest.param(ranks(FIRST, SECOND), id="another order"),
        pytest.param(ranks(FIRST, ("a", "c", "b")), id="the same first batch"),
        pytest.param(ranks(FIRST, ("a",)), id="few samples may be the same by chance"),
        pytest.param({0: Facts((), 2), 1: Facts((), 2)}, id="nothing that shuffles by epochs"),
    ],
)
def test_healthy_orders_are_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("second", [FIRST, FIRST[:2]])
@pytest.mark.parametrize("world", [1, 2, 64])
def test_the_same_order_is_an_error_at_the_loop(second: tuple[str, ...], world: int) -> None:
    (finding,) = judge(ranks(FIRST, second, world=world))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, tuple(range(world)))
    assert finding.location == LOOP
    assert "set_epoch" in finding.fix


def test_only_the_rank_that_saw_it_is_named() -> None:
    (finding,) = judge({0: ranks(FIRST, SECOND)[0], 1: ranks(FIRST, FIRST)[1]})
    assert finding.ranks == (1,)


def feed(*, shuffle: bool = True) -> Feed:
    data = TensorDataset(torch.arange(16))
    sampler: DistributedSampler[Any] = DistributedSampler(
        data, num_replicas=2, rank=0, shuffle=shuffle
    )
    return Feed(0, DataLoader(data, batch_size=4, sampler=sampler), LOOP)


def seen(own: Feed, *, trained: bool = True) -> Facts:
    """Return what is seen of two epochs whose order is the same."""
    observer = Observer(context_with())
    for _ in range(2):
        observer.on_epoch(own)
        for batch in ([3, 1, 5, 2], [0, 4, 6, 7]):
            observer.on_indices(own, batch)
            observer.on_fed(own)
            if trained:
                observer.on_step(0)
    return observer.facts()


def test_what_training_takes_is_compared() -> None:
    (finding,) = judge({0: seen(feed())})
    assert "the first 2 batches of epochs 0 and 1" in finding.message


def test_an_evaluation_may_have_the_same_order_each_time() -> None:
    facts = seen(feed(), trained=False)
    assert judge({0: facts}) == []
    assert "no loader" in summarize({0: facts})


def test_a_sampler_that_does_not_shuffle_is_left_alone() -> None:
    assert judge({0: seen(feed(shuffle=False))}) == []


def test_no_loader_at_all_is_a_skip() -> None:
    with pytest.raises(Skip, match="no DataLoader"):
        Observer(context_with()).facts()


def test_an_iterable_dataset_has_no_sampler_of_that_kind() -> None:
    loader: Any = SimpleNamespace(sampler=None, batch_sampler=None)
    assert judge({0: seen(Feed(0, loader, LOOP))}) == []
