from typing import Any

import pytest
import torch
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.data.same_batches import Facts, Observer
from ddpcheck.finding import Location
from ddpcheck.watch.batches import Keepsake
from ddpcheck.watch.feeds import Feed
from ddpcheck.watch.stream import EventStream

LOOP = Location("/train.py", 12, "train")


def seen(*events: str, batch: Any = None) -> Facts:
    """Return what is seen of batches (a number each) and backward passes."""
    observer = Observer(context_with())
    stream = EventStream({"": observer})
    for number, event in enumerate(events):
        if event == "loss":
            stream.emit("loss", number, torch.tensor(1.0))
        else:
            given = torch.arange(8) * int(event) if batch is None else batch
            stream.emit("batch", number, given)
    return observer.facts()


def test_batches_that_no_backward_pass_follows_do_not_count() -> None:
    assert seen("1", "loss", "2", "3").batches == seen("1", "loss").batches
    assert len(seen("1", "2", "loss").batches) == 2


def test_an_evaluation_before_the_training_does_not_count() -> None:
    observer, tested, trained = Observer(context_with()), Feed(0, None), Feed(1, LOOP)
    stream = EventStream({"": observer})
    for feed, number in ((tested, 1), (tested, 2), (trained, 3)):
        stream.emit("fed", feed)
        stream.emit("batch", 0, torch.arange(8) * number)
    stream.emit("loss", 0, torch.tensor(1.0))
    facts = observer.facts()
    assert (len(facts.batches), facts.location) == (1, LOOP)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(torch.zeros(8), id="all equal"),
        pytest.param({"names": ["a", "b"]}, id="no tensor"),
        pytest.param(torch.empty(4, device="meta"), id="no values"),
    ],
)
def test_what_tells_nothing_is_a_skip(batch: Any) -> None:
    with pytest.raises(Skip, match="no batch"):
        seen("1", "loss", batch=batch)


def test_digests_tell_batches_apart() -> None:
    told = [
        torch.arange(6),
        torch.arange(6).float(),
        torch.arange(6).reshape(2, 3),
        torch.arange(7),
    ]
    assert len({Keepsake({"x": each}).digest() for each in told}) == len(told)
    assert Keepsake(torch.arange(6)).digest() == Keepsake(torch.arange(6).clone()).digest()
    assert Keepsake(torch.arange(6, dtype=torch.bfloat16)).digest()
    assert Keepsake(torch.tensor([True, False])).digest()
