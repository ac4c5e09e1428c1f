from collections.abc import Mapping

import pytest
from vector_sketches import sketched

from ddpcheck.checks.gradients.divided_differently import Facts, judge, summarize
from ddpcheck.finding import Confidence, Location, Severity
from ddpcheck.measures.sketch import Sketch
from ddpcheck.measures.unwrapped import Summed, Unwrapped

LINE = Location("/train.py", 30, "average")
VALUES = {"first": (1.0, -2.0), "second": (0.5, 3.0), "third": (-1.0, 4.0), "fourth": (2.0, 0.25)}


def own_of(rank: int) -> dict[str, tuple[float, ...]]:
    """Return a rank's own gradients, unlike those of other ranks."""
    return {name: (a + rank, b - 2 * rank) for name, (a, b) in VALUES.items()}


def ranks(
    count: int, factors: Mapping[str, float], *, group: int = 0, unlike: str = ""
) -> dict[int, Facts]:
    """Return facts where the mean is multiplied by so much, 1 where nothing is said."""
    every = [own_of(rank) for rank in range(count)]
    means = {
        name: tuple(sum(part) / count for part in zip(*(own[name] for own in every), strict=True))
        for name in VALUES
    }
    summed = Summed(tuple(range(group or count)), is_whole=True, location=LINE)
    told: dict[int, Facts] = {}
    for rank, own in enumerate(every):
        averaged: dict[str, Sketch] = {
            name: sketched(*(factors.get(name, 1.0) * each for each in mean))
            for name, mean in means.items()
        }
        if unlike:
            averaged[unlike] = sketched(*own[unlike])
        mine = {name: sketched(*each) for name, each in own.items()}
        told[rank] = Facts(Unwrapped(summed, {"first": "model.first.weight"}), mine, averaged)
    return told


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(2, {}), id="averaged"),
        pytest.param(ranks(4, dict.fromkeys(VALUES, 4.0)), id="all are summed"),
        pytest.param(ranks(4, dict.fromkeys(VALUES, 0.3)), id="clipped together"),
        pytest.param(ranks(4, {"first": 0.7, "third": 0.2}), id="clipped one by one"),
        pytest.param(ranks(4, {"first": 4.0, "third": 0.2}), id="one of them by the ranks' number"),
        pytest.param(ranks(2, {"first": 0.0}), id="one is left at zero"),
        pytest.param(ranks(2, {}, unlike="first"), id="one is not averaged: replicas-differ"),
        pytest.param(ranks(2, {"first": 2.0}, group=4), id="some of the group told nothing"),
        pytest.param({0: ranks(1, {"first": 2.0})[0]}, id="one rank"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("count", [2, 4, 8])
def test_one_that_is_not_divided_is_named(count: int) -> None:
    (finding,) = judge(ranks(count, {"first": count}))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert (finding.ranks, finding.location) == (tuple(range(count)), LINE)
    assert "gradients of 1 parameter are divided by another number" in finding.title
    assert f"model.first.weight got {count} times" in finding.message


def test_one_that_is_divided_twice() -> None:
    (finding,) = judge(ranks(4, {"third": 0.25}))
    assert "third got 0.25 times as much" in finding.message


def test_half_of_them_a_bucket_say() -> None:
    (finding,) = judge(ranks(2, {"third": 2.0, "fourth": 2.0}))
    assert "gradients of 2 parameters" in finding.title
    assert "third, fourth got 2 times" in finding.message


def test_summary() -> None:
    assert summarize(ranks(2, {})).startswith("4 gradients")
