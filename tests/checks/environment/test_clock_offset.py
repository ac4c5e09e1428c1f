import msgspec
import pytest

from ddpcheck.checks.environment.clock_offset import Facts, judge, summarize
from ddpcheck.finding import Severity

NOW_S = 1.8e9


def ranks(
    *offsets_s: float, each: int = 8, exact_s: float = 0.01, late_s: float = 0.0
) -> dict[int, Facts]:
    """Return the ranks of hosts whose clocks are wrong by that much."""
    return {
        host * each + local: Facts(
            f"node{host}",
            f"node{host}",
            NOW_S + offset_s - exact_s - late_s * local,
            NOW_S + offset_s + exact_s,
        )
        for host, offset_s in enumerate(offsets_s)
        for local in range(each)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(0.0, each=1), id="one rank"),
        pytest.param(ranks(0.0), id="one host"),
        pytest.param(ranks(0.0, 0.5), id="half a second"),
        pytest.param(ranks(0.0, 30.0, exact_s=20.0), id="nothing can be said"),
        pytest.param(ranks(*[0.01 * host for host in range(125)]), id="1000 ranks"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("offset_s", "words"),
    [
        (90.0, "89.9 s or more ahead of that of node2 (rank 16-23)"),
        (-3600.0, "3600.0 s or more behind"),
    ],
)
def test_the_host_that_is_apart_is_named(offset_s: float, words: str) -> None:
    (finding,) = judge(ranks(0.0, offset_s, 0.1))
    assert finding.severity is Severity.INFO
    assert finding.ranks == tuple(range(8, 16))
    assert f"the clock of node1 (rank 8-15) is {words}" in finding.message
    assert "node1" in finding.fix


def test_of_two_hosts_neither_is_the_wrong_one() -> None:
    (finding,) = judge(ranks(0.0, 90.0))
    assert finding.ranks == tuple(range(16))


def test_of_hosts_of_one_name_each_has_its_clock() -> None:
    facts = {
        rank: msgspec.structs.replace(own, host="node")
        for rank, own in ranks(0.0, 90.0, 0.1).items()
    }
    (finding,) = judge(facts)
    assert finding.ranks == tuple(range(8, 16))
    assert "the clock of node (rank 8-15) is 89.9 s" in finding.message


def test_the_rank_that_knows_best_speaks_for_its_host() -> None:
    (finding,) = judge(ranks(0.0, 5.0, 0.0, late_s=20.0))
    assert "5.0 s" in finding.message


def test_summary() -> None:
    assert summarize(ranks(0.0, 0.1)) == "compared within 0.02 s"
