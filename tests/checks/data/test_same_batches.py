from collections.abc import Sequence
from typing import Any

import pytest
import torch
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.data.same_batches import Facts, Observer, judge, summarize
from ddpcheck.finding import Location, Severity
from ddpcheck.watch.batches import Keepsake
from ddpcheck.watch.feeds import Feed

LOOP = Location("/train.py", 12, "train")
ALL = (0, 1)


def ranks(*batches: str, group: Sequence[int] = ALL, loads: bool = True) -> dict[int, Facts]:
    """Return ranks with these batches, a letter each."""
    return {
        rank: Facts(tuple(own), (), tuple(group), loads, LOOP) for rank, own in enumerate(batches)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks("abcd", "efgh"), id="other batches"),
        pytest.param(ranks("abcd", "dcba"), id="the same data in another order"),
        pytest.param(ranks("abcd", "abce"), id="some in common"),
        pytest.param(ranks("aaaa", "aaaa"), id="one batch over and over"),
        pytest.param(ranks("a", "a"), id="one batch"),
        pytest.param({0: Facts(("", "")), 1: Facts(("", ""))}, id="nothing to be compared"),
        pytest.param(
            {r: Facts(tuple("abc" if r < 2 else "def"), (), (r % 2, r % 2 + 2)) for r in range(4)},
            id="tensor-parallel ranks in groups of their own",
        ),
    ],
)
def test_healthy_data_are_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_equal_batches_are_an_error_with_the_loop() -> None:
    (finding,) = judge(ranks("abcd", "abcdef"))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1))
    assert finding.location == LOOP
    assert "the first 4 batches are equal bit by bit on ranks 0-1" in finding.message


def test_where_only_some_share_it_is_only_told() -> None:
    (finding,) = judge(ranks("abcd", "efgh", "abcd", "ijkl", group=range(4)))
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 2))


def test_ranks_that_take_their_parts_of_one_batch_are_silent() -> None:
    facts = {r: Facts(tuple("abcd"), (f"part {r}",), ALL, True, LOOP) for r in ALL}
    assert judge(facts) == []


def test_equal_inputs_of_equal_batches_are_an_error() -> None:
    facts = {r: Facts(tuple("abcd"), tuple("wxyz"), ALL, True, LOOP) for r in ALL}
    (finding,) = judge(facts)
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize("facts", [ranks("ab", "ab", group=()), ranks("ab", "ab", loads=False)])
def test_without_ddp_or_a_loader_it_is_only_told(facts: dict[int, Facts]) -> None:
    (finding,) = judge(facts)
    assert finding.severity is Severity.INFO


def seen(*events: str, batch: Any = None) -> Facts:
    """Return what is seen of batches (a number each) and backward passes."""
    observer = Observer(context_with())
    for number, event in enumerate(events):
        if event == "loss":
            observer.on_loss(number, None)
        else:
            given = torch.arange(8) * int(event) if batch is None else batch
            observer.on_batch(number, given)
    return observer.facts()


def test_batches_that_no_backward_pass_follows_do_not_count() -> None:
    assert seen("1", "loss", "2", "3").batches == seen("1", "loss").batches
    assert len(seen("1", "2", "loss").batches) == 2


def test_an_evaluation_before_the_training_does_not_count() -> None:
    observer, tested, trained = Observer(context_with()), Feed(0, None), Feed(1, LOOP)
    for feed, number in ((tested, 1), (tested, 2), (trained, 3)):
        observer.on_fed(feed)
        observer.on_batch(0, torch.arange(8) * number)
    observer.on_loss(0, None)
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


def test_summary() -> None:
    assert summarize(ranks("abcd", "ef")) == "the first 2 batches compared on 2 rank(s)"
