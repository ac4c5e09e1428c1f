import pytest

from ddpcheck.checks.collectives.result_not_awaited import Dropped, Facts, judge, summarize
from ddpcheck.finding import Location, Severity

HERE = Location("/train.py", 30, "average")
THERE = Location("/train.py", 55, "log")
REDUCE = "all_reduce SUM float32[8]"


def at(*places: Location) -> Facts:
    return Facts([Dropped(REDUCE, each, 4) for each in places])


@pytest.mark.parametrize("facts", [{0: at()}, {0: at(), 1: at()}, {3: at(), 7: at()}])
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []
    assert "no asynchronous" in summarize(facts)


def test_a_line_is_one_warning_with_its_ranks() -> None:
    first, second = judge({0: at(HERE), 1: at(HERE, THERE), 2: at()})
    assert (first.severity, first.ranks, first.location) == (Severity.WARNING, (0, 1), HERE)
    assert (second.ranks, second.location) == ((1,), THERE)
    assert REDUCE in first.message
    assert "4 times" in first.message
