from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.data.padded_evaluation import Observer, Pass
from ddpcheck.finding import Location
from ddpcheck.watch.feeds import Feed

LOOP = Location("/eval.py", 30, "evaluate")


def shared(number: int = 0) -> Feed:
    return Feed(number, LOOP, is_shared=True, replicas=2, samples=5)


def iterate(observer: Observer, feed: Feed, *, trains: bool = False, ends: bool = True) -> None:
    observer.on_epoch(feed)
    for batch in ([0, 2], [4]):
        observer.on_indices(feed, batch)
        if trains:
            observer.on_fed(feed)
            observer.on_loss(0, None)
    if ends:
        observer.on_drained(feed)


def test_an_evaluation_is_counted_once() -> None:
    observer, trained, tested = Observer(context_with(watches=True)), shared(0), shared(1)
    for _ in range(2):
        iterate(observer, trained, trains=True)
        iterate(observer, tested)
    assert observer.facts().passes == (Pass(LOOP, 3, 5, 2),)


def test_a_loader_that_is_trained_from_may_be_evaluated_on_later() -> None:
    observer, feed = Observer(context_with(watches=True)), shared()
    iterate(observer, feed, trains=True)
    assert observer.facts().passes == ()
    iterate(observer, feed)
    assert observer.facts().passes == (Pass(LOOP, 3, 5, 2),)


@pytest.mark.parametrize("feed", [Feed(0, LOOP, samples=5), Feed(0, LOOP, is_shared=True)])
def test_what_is_not_shared_or_has_no_length_is_left_out(feed: Feed) -> None:
    observer = Observer(context_with(watches=True))
    iterate(observer, feed)
    assert observer.facts().passes == ()


def test_one_that_was_left_before_its_end_says_nothing() -> None:
    observer = Observer(context_with(watches=True))
    iterate(observer, shared(), ends=False)
    assert observer.facts().passes == ()


def gathering(name: str, observer: Observer) -> None:
    """Have a function of this name, of accelerate, call a collective."""
    source = compile(f"def {name}(told): told(None)", "/site-packages/accelerate/it.py", "exec")
    space: dict[str, Any] = {}
    exec(source, space)
    space[name](observer.on_called)


@pytest.mark.parametrize(("name", "count"), [("gather_for_metrics", 0), ("gather", 1)])
def test_what_accelerate_drops_counts_once(name: str, count: int) -> None:
    observer = Observer(context_with(watches=True))
    gathering(name, observer)
    iterate(observer, shared())
    gathering(name, observer)
    assert len(observer.facts().passes) == count


def test_in_a_rehearsal_it_is_a_skip() -> None:
    with pytest.raises(Skip, match="ddpcheck watch"):
        Observer(context_with()).facts()
