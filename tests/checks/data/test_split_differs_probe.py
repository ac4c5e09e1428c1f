from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.data.split_differs import Observer, summarize
from ddpcheck.finding import Location

LINE = Location("/data.py", 20, "setup")


def part(*indices: int) -> Any:
    return SimpleNamespace(indices=list(indices))


def test_the_observer_knows_a_part_that_is_loaded_by_shares() -> None:
    observer = Observer(context_with(watches=True))
    parts = (part(0, 2, 3), part(1))
    observer.on_split(range(4), parts, LINE)
    (split,) = observer.facts().splits
    assert (split.total, split.lengths, split.is_shared) == (4, (3, 1), False)
    observer.on_epoch(SimpleNamespace(is_shared=True, dataset_id=1))
    assert not observer.facts().splits[0].is_shared
    observer.on_epoch(SimpleNamespace(is_shared=True, dataset_id=id(parts[0])))
    assert observer.facts().splits[0].is_shared
    assert summarize({0: observer.facts()}) == "1 splits compared"


def test_folds_follow_each_other() -> None:
    observer, dataset = Observer(context_with(watches=True)), range(6)
    folds = [([0, 1, 2, 3], [4, 5]), ([2, 3, 4, 5], [0, 1]), ([0, 1, 4, 5], [2, 3])]
    subsets = [SimpleNamespace(dataset=dataset, indices=each) for fold in folds for each in fold]
    for subset in subsets:
        observer.on_chosen(subset, LINE)
    assert [split.samples for split in observer.facts().own] == [
        tuple(map(tuple, fold)) for fold in folds
    ]


def test_without_a_script_it_is_a_skip() -> None:
    with pytest.raises(Skip):
        Observer(context_with()).facts()
