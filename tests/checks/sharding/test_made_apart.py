import pytest

from ddpcheck.checks.sharding.made_apart import Facts, Sharded, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 40, "main")
ALL = (0, 1)


def made(*digests: str, ranks: tuple[int, ...] = ALL, replaced: bool = False) -> Facts:
    return Facts(tuple(Sharded(each, ranks, LINE) for each in digests), replaced)


def test_models_of_each_rank_are_a_warning() -> None:
    (finding,) = judge({0: made("a", "b"), 1: made("a", "c")})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, ALL)
    assert finding.location == LINE
    assert "of 2 modules looked at" in finding.message


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(made("a", "b"), id="seeded alike"),
        pytest.param(made("c", "d", replaced=True), id="loaded later"),
        pytest.param(made("", ""), id="made anew later, or on the meta device"),
        pytest.param(made("c", "d", ranks=(1,)), id="another stage"),
    ],
)
def test_silent(other: Facts) -> None:
    assert judge({0: made("a", "b"), 1: other}) == []


def test_experts_of_several_ranks_each_are_compared_among_these() -> None:
    facts = {rank: made(str(rank % 2), ranks=(rank % 2, rank % 2 + 2)) for rank in range(4)}
    assert judge(facts) == []
    (finding,) = judge(facts | {3: made("other", ranks=(1, 3))})
    assert finding.ranks == (1, 3)


def test_summary() -> None:
    assert summarize({0: made("a", "b")}) == "2 modules compared as they were sharded"
