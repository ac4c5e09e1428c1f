import pytest
from standings import stands

from ddpcheck.checks.network.wrong_interface import Facts, judge, summarize
from ddpcheck.finding import Severity

Used = tuple[str, str]


def hosts_with(
    *used: list[Used], backend: str = "nccl", settings: tuple[str, ...] = (), per_host: int = 1
) -> dict[int, Facts]:
    """Return the ranks of hosts that use these interfaces."""
    settings = settings or ("",) * len(used)
    return {
        index * per_host + local: Facts(
            stands(f"node{index}", *each, backend=backend, setting=settings[index])
        )
        for index, each in enumerate(used)
        for local in range(per_host)
    }


ETH = [[("eth0", f"10.0.0.{n}")] for n in range(3)]
LO = [("lo", "127.0.0.1")]
DOCKER = [("docker0", "172.17.0.1")]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(hosts_with(ETH[0]), id="one rank"),
        pytest.param(hosts_with(LO, per_host=8), id="lo on one host"),
        pytest.param(hosts_with(LO, settings=("lo",), backend="gloo"), id="lo set on one host"),
        pytest.param(hosts_with(*ETH, per_host=8), id="healthy"),
        pytest.param(hosts_with(*ETH, settings=("^docker,lo",) * 3), id="excluded"),
        pytest.param(hosts_with(*ETH, settings=("=eth0",) * 3), id="exact"),
        pytest.param(hosts_with(*ETH, backend="gloo", settings=("eth0",) * 3), id="gloo, set"),
        pytest.param(hosts_with(*([*e, *DOCKER] for e in ETH)), id="docker0 beside it"),
        pytest.param(hosts_with(LO, LO, backend="gloo"), id="gloo by the name of the host"),
        pytest.param(hosts_with(ETH[0], ETH[1][:0], ETH[2], backend="gloo"), id="not known"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "severity", "ranks", "words"),
    [
        pytest.param(
            hosts_with(LO, ETH[1], settings=("^docker0", "eth0")),
            Severity.ERROR,
            (0,),
            ["node0", "NCCL_SOCKET_IFNAME", "^docker0", "lo"],
            id="^docker0 lets lo in",
        ),
        pytest.param(
            hosts_with(LO, LO, settings=("lo", "lo"), per_host=2),
            Severity.ERROR,
            (0, 1, 2, 3),
            ["node0", "node1"],
            id="lo on both",
        ),
        pytest.param(
            hosts_with(LO, LO, settings=("lo", "lo"), backend="gloo"),
            Severity.ERROR,
            (0, 1),
            ["GLOO_SOCKET_IFNAME"],
            id="gloo, lo on both",
        ),
        pytest.param(
            hosts_with([("eth0", "10.0.0.1")], LO, settings=("", "lo"), backend="gloo"),
            Severity.WARNING,
            (1,),
            ["node1"],
            id="gloo, lo on the one that calls",
        ),
        pytest.param(
            hosts_with([("eth0", "172.31.0.1")], LO, settings=("", "lo"), backend="gloo"),
            Severity.ERROR,
            (1,),
            ["node1"],
            id="gloo, lo on the one that is called",
        ),
        pytest.param(hosts_with(LO, ETH[1]), Severity.ERROR, (0,), ["not set"], id="only lo runs"),
        pytest.param(
            hosts_with(DOCKER, DOCKER, ETH[2], per_host=2),
            Severity.ERROR,
            (0, 1, 2, 3),
            ["docker0", "bridge", "172.17.0.1", "node0", "node1"],
            id="docker0 on two of three",
        ),
        pytest.param(
            hosts_with(DOCKER, [("docker1", "172.17.0.1")], backend="gloo"),
            Severity.ERROR,
            (0, 1),
            ["172.17.0.1"],
            id="one address, two names",
        ),
    ],
)
def test_found(
    facts: dict[int, Facts], severity: Severity, ranks: tuple[int, ...], words: list[str]
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (severity, ranks)
    assert [word for word in words if word not in finding.message] == []
    name = facts[0].standing.backend.upper()
    assert f"export {name}_SOCKET_IFNAME=eth0 on node" in finding.fix


def test_a_setting_that_means_nothing_ends_even_a_run_on_one_host() -> None:
    wrong = stands("node0", setting="ens9", missing=("ens9",))
    (finding,) = judge({0: Facts(wrong), 1: Facts(wrong)})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1))
    assert "'ens9'" in finding.message
    assert "NCCL_SOCKET_IFNAME=eth0" in finding.fix


def test_an_interface_without_a_carrier_is_a_warning() -> None:
    down = stands("node1", setting="eth1", idle=("eth1",))
    (finding,) = judge({0: Facts(stands("node0", ("eth0", "10.0.0.1"))), 1: Facts(down)})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))


def test_the_wrong_interface_is_no_fix() -> None:
    both = [stands(f"n{n}", *DOCKER, way=("docker0", "172.17.0.1")) for n in range(2)]
    (finding,) = judge({rank: Facts(own) for rank, own in enumerate(both)})
    assert "=docker0" not in finding.fix


def test_a_thousand_hosts_are_one_finding() -> None:
    (finding,) = judge(hosts_with(*[LO] * 1000, settings=("lo",) * 1000))
    assert len(finding.ranks) == 1000
    assert len(finding.message) < 1000


def test_summary() -> None:
    assert summarize(hosts_with(ETH[0], DOCKER)) == "nccl would use docker0, eth0"
