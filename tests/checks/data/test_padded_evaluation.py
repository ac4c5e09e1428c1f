import pytest

from ddpcheck.checks.data.padded_evaluation import Facts, Pass, judge, summarize
from ddpcheck.finding import Location, Severity

LOOP = Location("/eval.py", 30, "evaluate")


def ranks(*taken: int, samples: int = 21, replicas: int = 2) -> dict[int, Facts]:
    """Return ranks that were given so many samples."""
    return {
        rank: Facts((Pass(LOOP, count, samples, replicas),)) for rank, count in enumerate(taken)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(11, 10), id="parts of unequal length"),
        pytest.param(ranks(10, 10, samples=20), id="no padding is needed"),
        pytest.param(ranks(10, 10), id="the last one is dropped"),
        pytest.param(ranks(10, 10, 10, 10, samples=20), id="two ranks have each part"),
        pytest.param({0: Facts(()), 1: Facts(())}, id="no evaluation"),
    ],
)
def test_healthy_evaluations_are_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "twice"),
    [(ranks(11, 11), 1), (ranks(6, 6, 6, 6, replicas=4), 3), (ranks(11, 11, 11, 11), 1)],
)
def test_samples_that_come_twice_are_told_with_the_loop(
    facts: dict[int, Facts], twice: int
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.INFO, tuple(facts))
    assert finding.location == LOOP
    assert (
        finding.title
        == f"an evaluation is given {'1 sample' if twice == 1 else f'{twice} samples'} twice"
    )
    assert f"has 21 samples, the ranks' parts together {21 + twice}" in finding.message


def test_summary() -> None:
    assert summarize(ranks(11, 11)).startswith("1 evaluations")
