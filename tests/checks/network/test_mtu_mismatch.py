import pytest

from ddpcheck.checks.network.mtu_mismatch import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.network.own_address import Wire

HERE = "10.0.0.0/24"


def ranks(*mtus: int, networks: tuple[str, ...] = ()) -> dict[int, Facts]:
    """Return the facts of two ranks a host, one host an MTU."""
    networks = networks or (HERE,) * len(mtus)
    return {
        2 * host + local: Facts(f"node{host}", f"p{host}", Wire("eth0", networks[host], mtu))
        for host, mtu in enumerate(mtus)
        for local in range(2)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1500), id="one host"),
        pytest.param(ranks(9000, 9000, 9000), id="all the same"),
        pytest.param(ranks(9000, 1500, networks=(HERE, "10.0.1.0/24")), id="a router between"),
        pytest.param(ranks(9000, 0), id="not known"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("mtus", "guilty", "right"),
    [
        ((9000, 1500, 9000), (2, 3), "mtu 9000 on node1"),
        ((1500, 9000, 1500), (2, 3), "mtu 1500 on node1"),
        ((9000, 1500), (0, 1), "mtu 1500 on node0"),
        ((9000, 1500, 4200), (0, 1, 4, 5), "mtu 1500 on node0, node2"),
    ],
)
def test_another_mtu(mtus: tuple[int, ...], guilty: tuple[int, ...], right: str) -> None:
    (finding,) = judge(ranks(*mtus))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.ranks == guilty
    assert right in finding.fix
    assert [mtu for mtu in mtus if str(mtu) not in finding.message] == []


def test_each_network_for_itself() -> None:
    there = "10.0.1.0/24"
    facts = ranks(9000, 1500, 9000, 9000, networks=(HERE, HERE, there, there))
    (finding,) = judge(facts)
    assert HERE in finding.message


def test_many_hosts_are_one_finding() -> None:
    (finding,) = judge(ranks(*[9000] * 500, *[1500] * 100))
    assert len(finding.ranks) == 200
    assert len(finding.message) < 500


def test_summary() -> None:
    assert summarize(ranks(9000, 1500)) == "MTU 1500, 9000 bytes"
