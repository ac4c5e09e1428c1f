import pytest
from standings import stands

from ddpcheck.checks.network.mixed_address_families import Facts, judge, summarize
from ddpcheck.finding import Severity


def on(host: str, address: str, backend: str = "nccl", families: tuple[int, ...] = ()) -> Facts:
    """Return a rank whose host has the family of its address, unless told otherwise."""
    has = families or ((6,) if ":" in address else (4,))
    return Facts(stands(host, ("eth0", address), backend=backend, families=has))


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: on("a", "10.0.0.1")}, id="one rank"),
        pytest.param({0: on("a", "10.0.0.1"), 1: on("b", "10.0.0.2")}, id="IPv4"),
        pytest.param({0: on("a", "fd00::1"), 1: on("b", "fd00::2")}, id="IPv6"),
        pytest.param({0: on("a", "10.0.0.1"), 1: on("a", "fd00::1")}, id="one host"),
        pytest.param(
            {0: on("a", "10.0.0.1", families=(4, 6)), 1: on("b", "fd00::2", families=(4, 6))},
            id="NCCL where all hosts have both",
        ),
        pytest.param({0: on("a", "::1", "gloo"), 1: on("b", "10.0.0.2", "gloo")}, id="loopback"),
        pytest.param(
            {0: Facts(stands("a")), 1: on("b", "fd00::2"), 2: on("c", "fd00::3")}, id="not known"
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "ranks", "fix"),
    [
        pytest.param(
            {0: on("a", "10.0.0.1"), 1: on("b", "10.0.0.2"), 2: on("c", "fd00::3")},
            (2,),
            "none in common",
            id="NCCL, nothing in common",
        ),
        pytest.param(
            {0: on("a", "10.0.0.1"), 1: on("b", "fd00::2", families=(4, 6))},
            (0,),
            "NCCL_SOCKET_FAMILY=AF_INET ",
            id="NCCL, a host has no IPv6",
        ),
        pytest.param(
            {
                r: on(f"n{r // 2}", "fd00::1" if r < 2 else "10.0.0.2", "gloo", (4, 6))
                for r in range(6)
            },
            (0, 1),
            "GLOO_SOCKET_IFNAME=eth0",
            id="gloo, whatever the hosts have",
        ),
    ],
)
def test_found(facts: dict[int, Facts], ranks: tuple[int, ...], fix: str) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, ranks)
    assert fix in finding.fix
    assert "IPv4 is what" in finding.message
    assert "IPv6 is what" in finding.message


def test_summary() -> None:
    assert summarize({0: on("a", "10.0.0.1"), 1: on("b", "fd00::1")}) == "IPv4 and IPv6"
