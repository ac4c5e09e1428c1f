import pytest

from ddpcheck.checks.launch.scattered_ranks import Facts, judge
from ddpcheck.finding import Severity
from ddpcheck.measures.rank_process import RankProcess

HERE, THERE = "127.0.0.1:31064", "127.0.0.1:31071"


def test_an_absent_rank_that_waits_elsewhere_is_named_with_both_places() -> None:
    (finding,) = judge({0: Facts("node0", HERE, [RankProcess(77, 1, THERE)])})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
    assert f"this run meets at {HERE}" in finding.message
    assert f"rank 1 (node0, pid 77) {THERE}" in finding.message
    assert "MASTER_PORT once" in finding.fix


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: Facts("node0", HERE, [])}, id="absent, and not to be seen"),
        pytest.param(
            {rank: Facts("node0", HERE, [RankProcess(77, 1, THERE)]) for rank in (0, 1)},
            id="a rank of another job: ours is here",
        ),
        pytest.param(
            {0: Facts("node0", HERE, [RankProcess(77, 1, THERE), RankProcess(76, 0, THERE)])},
            id="another job has a rank 0 of its own",
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []
