import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.data.epoch_not_set import Facts, Observer, judge, summarize
from ddpcheck.finding import Location
from ddpcheck.watch.feeds import Feed

LOOP = Location("/train.py", 12, "train")


def feed(*, shuffles: bool = True) -> Feed:
    return Feed(0, LOOP, shuffles=shuffles)


def seen(own: Feed, *, trained: tuple[int, ...] = (0, 1), told: tuple[int, ...] = (0, 0)) -> Facts:
    """Return what is seen of two iterations whose order is the same, with these epochs told."""
    observer = Observer(context_with())
    for epoch in range(2):
        own.epochs, own.epoch = epoch + 1, told[epoch]
        observer.on_epoch(own)
        for batch in ([3, 1, 5, 2], [0, 4, 6, 7]):
            observer.on_indices(own, batch)
            observer.on_fed(own)
            if epoch in trained:
                observer.on_loss(0, None)
    return observer.facts()


def test_what_training_takes_is_compared() -> None:
    (finding,) = judge({0: seen(feed())})
    assert "the first 2 batches of two epochs" in finding.message


@pytest.mark.parametrize("trained", [(), (0,), (1,)])
def test_an_evaluation_or_a_look_may_have_the_same_order(trained: tuple[int, ...]) -> None:
    assert judge({0: seen(feed(), trained=trained)}) == []


def test_an_epoch_that_was_told_is_silent() -> None:
    assert judge({0: seen(feed(), told=(0, 1))}) == []


def test_a_loader_that_began_in_another_training() -> None:
    observer, own = Observer(context_with()), feed()
    own.epochs = 1
    observer.on_indices(own, [3, 1])
    observer.on_fed(own)
    observer.on_loss(0, None)
    observer.on_epoch(own)
    assert observer.facts().orders[0].epochs == ()


@pytest.mark.parametrize(("made_in_between", "count"), [(0, 1), (1, 0)])
def test_a_search_for_a_learning_rate_has_an_optimizer_of_its_own(
    made_in_between: int, count: int
) -> None:
    observer, own = Observer(context_with()), feed()
    for epoch in range(2):
        own.epochs = epoch + 1
        observer.on_epoch(own)
        observer.on_optimizing(object(), None)  # in the first step, as a training may do
        observer.on_indices(own, [3, 1, 5, 2, 0, 4, 6, 7])
        observer.on_fed(own)
        observer.on_loss(0, None)
        for _ in range(made_in_between):
            observer.on_optimizing(object(), None)
    assert len(judge({0: observer.facts()})) == count


def test_a_sampler_that_does_not_shuffle_is_left_alone() -> None:
    facts = {0: seen(feed(shuffles=False))}
    assert judge(facts) == []
    assert "no loader" in summarize(facts)


def test_no_loader_at_all_is_a_skip() -> None:
    with pytest.raises(Skip, match="no DataLoader"):
        Observer(context_with()).facts()
