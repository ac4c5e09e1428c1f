from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.data.split_differs import Facts, Observer, Split, judge, summarize
from ddpcheck.finding import Confidence, Location, Severity

LINE = Location("/data.py", 20, "setup")


def ranks(*digests: str, total: int = 100, is_shared: bool = True) -> dict[int, Facts]:
    """Return ranks that split alike where their letters are the same."""
    return {
        rank: Facts((Split(total, (80, 20), digest, LINE, is_shared),))
        for rank, digest in enumerate(digests)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks("a", "a"), id="the same parts"),
        pytest.param(ranks("a"), id="one rank"),
        pytest.param(ranks("a", "a") | {2: Facts(())}, id="rank 2 splits nothing"),
        pytest.param(
            ranks("a", "b") | {1: Facts((Split(90, (72, 18), "b"),))}, id="shards of other lengths"
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_other_parts_of_a_shared_dataset_are_an_error_at_the_split() -> None:
    (finding,) = judge(ranks("a", "a", "b", "a"))
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert (finding.ranks, finding.location) == ((0, 1, 2, 3), LINE)
    assert "parts of 80 and 20: rank 2 has other samples" in finding.message


def test_ranks_may_have_datasets_of_their_own() -> None:
    (finding,) = judge(ranks("a", "b", is_shared=False))
    assert finding.severity is Severity.INFO
    assert "unless each rank has a dataset of its own" in finding.message


def part(*indices: int) -> Any:
    return SimpleNamespace(indices=list(indices))


def test_the_observer_knows_a_part_that_is_loaded_by_shares() -> None:
    observer = Observer(context_with(watches=True))
    parts = (part(0, 2, 3), part(1))
    observer.on_split(range(4), parts, LINE)
    (split,) = observer.facts().splits
    assert (split.total, split.lengths, split.is_shared) == (4, (3, 1), False)
    observer.on_epoch(SimpleNamespace(is_shared=True, dataset_id=1))  # type: ignore[arg-type]
    assert not observer.facts().splits[0].is_shared
    observer.on_epoch(SimpleNamespace(is_shared=True, dataset_id=id(parts[0])))  # type: ignore[arg-type]
    assert observer.facts().splits[0].is_shared
    assert summarize({0: observer.facts()}) == "1 splits compared"


def own(train: list[int], held_out: list[int], *, is_shared: bool = True) -> Facts:
    """Return a rank that makes two Subsets of ten samples by itself."""
    observer = Observer(context_with(watches=True))
    dataset = range(10)
    subsets = [SimpleNamespace(dataset=dataset, indices=each) for each in (train, held_out)]
    for subset in subsets:
        observer.on_chosen(subset, LINE)
    feed: Any = SimpleNamespace(is_shared=is_shared, dataset_id=id(subsets[0]))
    observer.on_epoch(feed)
    return observer.facts()


def test_subsets_of_the_script_s_own_that_mix_the_ranks_parts() -> None:
    facts = {0: own([0, 1, 2, 3], [4, 5]), 1: own([2, 3, 4, 5], [0, 1])}
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks, finding.location) == (Severity.ERROR, (0, 1), LINE)
    assert finding.title == "Subsets give the ranks different parts"
    assert "of 10 samples, parts of 4 and 2" in finding.message


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: own([0, 1, 2], [4]), 1: own([0, 1, 2], [4])}, id="the same"),
        pytest.param({0: own([0, 1], [8]), 1: own([2, 3], [9])}, id="shares of the same parts"),
        pytest.param({0: own([0, 1, 2], [4]), 1: own([5, 6], [0])}, id="of other lengths"),
        pytest.param({0: own([0, 1], [1, 2]), 1: own([3, 4], [4, 5])}, id="no parts: they overlap"),
        pytest.param({0: own([0, 1], [])}, id="one alone"),
    ],
)
def test_subsets_that_are_right(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_folds_follow_each_other() -> None:
    observer, dataset = Observer(context_with(watches=True)), range(6)
    folds = [([0, 1, 2, 3], [4, 5]), ([2, 3, 4, 5], [0, 1]), ([0, 1, 4, 5], [2, 3])]
    subsets = [SimpleNamespace(dataset=dataset, indices=each) for fold in folds for each in fold]
    for subset in subsets:
        observer.on_chosen(subset, LINE)
    assert [split.samples for split in observer.facts().own] == [
        tuple(map(tuple, fold)) for fold in folds
    ]


def test_subsets_of_what_may_be_a_dataset_of_the_rank_s_own() -> None:
    facts = {
        0: own([0, 1, 2, 3], [4, 5], is_shared=False),
        1: own([2, 3, 4, 5], [0, 1], is_shared=False),
    }
    (finding,) = judge(facts)
    assert finding.severity is Severity.INFO


def test_without_a_script_it_is_a_skip() -> None:
    with pytest.raises(Skip):
        Observer(context_with()).facts()
