import pytest
from contexts import context_with

from ddpcheck.check import Meeting, Skip
from ddpcheck.checks.launch.master_not_rank_zero import Facts, judge, probe, summarize
from ddpcheck.finding import Severity

PLACE = "node0:29500"


def test_a_rank_zero_that_runs_elsewhere_is_an_error_that_names_both_hosts() -> None:
    facts = {0: Facts("node7", PLACE, "node0"), 1: Facts("node0", PLACE, "node0")}
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0,))
    assert "node0:29500 is on node0, but rank 0 runs on node7" in finding.message
    assert "set MASTER_ADDR to node7" in finding.fix


@pytest.mark.parametrize(
    "facts",
    [
        {0: Facts("node0", PLACE, "node0"), 1: Facts("node7", PLACE, "node0")},
        {1: Facts("node7", PLACE, "node0")},
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_store_that_the_launcher_hosts_says_nothing_of_rank_zero() -> None:
    with pytest.raises(Skip, match="launcher"):
        probe(context_with(meeting=Meeting(PLACE, 0.1)))


def test_the_host_of_the_store_is_noted() -> None:
    facts = probe(context_with(host="node7", meeting=Meeting(PLACE, 0.1, store_host="node0")))
    assert facts == Facts("node7", PLACE, "node0")
    assert summarize({0: facts}) == "the store is at node0:29500, on node0"
