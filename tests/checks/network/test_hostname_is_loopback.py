import pytest
from standings import stands

from ddpcheck.checks.network.hostname_is_loopback import Facts, judge, summarize
from ddpcheck.finding import Severity


def gloo(host: str, address: str, setting: str = "", used: str = "", domain: str = "") -> Facts:
    """Return a rank on a host whose name leads to this address."""
    interface = "lo" if (used or address).startswith("127.") else "eth0"
    choice = [(interface, used or address)] if used or address else []
    return Facts(stands(host, *choice, backend="gloo", own=address, domain=domain), setting)


def nccl(host: str, address: str) -> Facts:
    return Facts(stands(host, ("eth0", f"10.0.0.{host[-1]}"), own=address), "")


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: gloo("node0", "127.0.1.1")}, id="one rank"),
        pytest.param({r: gloo("node0", "127.0.1.1") for r in range(8)}, id="one host"),
        pytest.param(
            {r: gloo(f"box{r}", "127.0.0.1", domain="one network") for r in range(2)},
            id="containers that share a network",
        ),
        pytest.param({r: gloo(f"node{r}", f"10.0.0.{r}") for r in range(2)}, id="right names"),
        pytest.param(
            {r: gloo(f"node{r}", "127.0.1.1", "eth0", f"10.0.0.{r}") for r in range(2)}, id="set"
        ),
        pytest.param({r: gloo(f"node{r}", "") for r in range(2)}, id="not known in time"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "severity", "ranks"),
    [
        pytest.param(
            {0: gloo("node0", "192.168.0.1"), 1: gloo("node1", "127.0.1.1")},
            Severity.ERROR,
            (1,),
            id="the others call it",
        ),
        pytest.param(
            {0: gloo("node0", "10.0.0.1"), 1: gloo("node1", "127.0.1.1")},
            Severity.WARNING,
            (1,),
            id="it calls the others",
        ),
        pytest.param(
            {0: gloo("node0", "127.0.1.1"), 1: gloo("node1", "127.0.1.1")},
            Severity.ERROR,
            (0, 1),
            id="both",
        ),
        pytest.param(
            {r: gloo(f"node{r // 8}", "127.0.1.1" if r > 7 else "172.16.0.1") for r in range(16)},
            Severity.ERROR,
            tuple(range(8, 16)),
            id="8 ranks a host",
        ),
        pytest.param(
            {0: nccl("node0", "10.0.0.0"), 1: nccl("node1", "127.0.1.1")},
            Severity.INFO,
            (1,),
            id="NCCL does not ask",
        ),
    ],
)
def test_found(facts: dict[int, Facts], severity: Severity, ranks: tuple[int, ...]) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (severity, ranks)
    assert "node1" in finding.message
    assert "127.0.1.1" in finding.message
    assert "GLOO_SOCKET_IFNAME=eth0 on" in finding.fix


def test_a_name_that_leads_nowhere_is_told_as_such() -> None:
    lost = Facts(
        stands("node1", ("lo", "127.0.0.1"), backend="gloo", own="127.0.0.1", found=()), ""
    )
    (finding,) = judge({0: gloo("node0", "192.168.0.1"), 1: lost})
    assert finding.severity is Severity.ERROR
    assert "cannot resolve" in finding.message


def test_a_thousand_hosts_are_one_finding() -> None:
    facts = {r: gloo(f"node{r:04}", "127.0.1.1" if r else "192.168.0.1") for r in range(1000)}
    (finding,) = judge(facts)
    assert len(finding.ranks) == 999
    assert len(finding.message) < 1000


def test_summary() -> None:
    told = summarize({0: gloo("node0", "10.0.0.1"), 1: gloo("node1", "")})
    assert "node0 is 10.0.0.1" in told
