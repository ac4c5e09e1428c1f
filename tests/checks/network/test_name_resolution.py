import pytest
from contexts import context_with

from ddpcheck.check import Meeting, Skip
from ddpcheck.checks.network.name_resolution import Facts, judge, probe, summarize
from ddpcheck.finding import Severity


def saw(
    host: str, *places: str, unknown: tuple[str, ...] = (), slow: tuple[str, ...] = ()
) -> Facts:
    return Facts(host, f"network of {host}", True, "node0", places, 3, unknown, slow)


def left_it(host: str) -> Facts:
    return Facts(host, f"network of {host}", looks=False)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: saw("node0")}, id="one rank"),
        pytest.param({0: saw("node0"), 1: left_it("node0")}, id="one host"),
        pytest.param({0: saw("node0", "10.0.0.1"), 1: saw("node1", "10.0.0.1")}, id="the same"),
        pytest.param(
            {0: saw("node0", "127.0.1.1"), 1: saw("node1", "10.0.0.1"), 2: left_it("node1")},
            id="the loopback on rank 0's own host",
        ),
        pytest.param(
            {
                0: saw("node0"),
                1: saw("node1", "10.0.0.1", "fd00::1"),
                2: saw("node2", "fd00::1", "127.0.0.1"),
            },
            id="some in common",
        ),
        pytest.param({0: saw("node0"), 1: saw("node1")}, id="MASTER_ADDR is an address"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_the_loopback_on_another_host_is_a_warning() -> None:
    facts = {
        0: saw("node0", "10.0.0.1"),
        1: left_it("node1"),
        2: saw("node1", "127.0.0.1"),
        3: saw("node2", "10.0.0.1"),
    }
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1, 2))
    assert "node1" in finding.fix
    assert "127.0.0.1" in finding.message


def test_different_addresses_are_worth_knowing() -> None:
    facts = {
        0: saw("node0", "127.0.1.1"),
        1: saw("node1", "10.0.0.1"),
        2: saw("node2", "34.1.2.3"),
    }
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.INFO, (1, 2))
    assert "node2 (34.1.2.3)" in finding.message


def test_names_that_lead_nowhere_are_no_fault_of_the_job() -> None:
    facts = {0: saw("node0", unknown=("node1",)), 1: saw("node1", slow=("node0",))}
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 1))
    assert "node0, node1 not found" in finding.message


def test_a_thousand_hosts_are_few_words() -> None:
    everybody = tuple(f"node{n}" for n in range(64))
    (finding,) = judge({r: saw(f"node{r}", unknown=everybody) for r in range(1000)})
    assert len(finding.ranks) == 1000
    assert len(finding.message) < 500


def test_summary() -> None:
    facts = {0: saw("node0", unknown=("node1",)), 1: left_it("node0"), 2: saw("node1")}
    assert summarize(facts) == "5 of 6 names of other hosts found"
    assert summarize({0: left_it("node0")}) == "no other host to look up"


@pytest.mark.parametrize(
    ("changes", "why"), [({"meeting": Meeting("x", 0.0, "no")}, "meet"), ({}, "no store")]
)
def test_skipped(changes: dict[str, Meeting], why: str) -> None:
    with pytest.raises(Skip, match=why):
        probe(context_with(**changes))
