from pathlib import Path

import pytest
from contexts import context_with
from hosts import made_hosts
from probes_on_hosts import probed
from standings import stands

from ddpcheck.check import Meeting, Skip
from ddpcheck.checks.network.mixed_address_families import Facts, judge, probe, summarize
from ddpcheck.finding import Severity

CHECK = "network/mixed-address-families"


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


def test_ranks_that_cannot_meet_are_not_measured() -> None:
    with pytest.raises(Skip, match="cannot meet"):
        probe(context_with(meeting=Meeting("x", 0.0, "no")))


def test_real_hosts(tmp_path: Path) -> None:
    with made_hosts(2) as hosts:
        hosts[0].add_address("fd77::1/64")
        hosts[1].add_address("fd77::2/64")
        (tmp_path / "same").mkdir()
        assert judge(probed(CHECK, hosts, tmp_path / "same")) == []
        hosts[1].set_etc_hosts("fd77::2 host1\n")
        (tmp_path / "mixed").mkdir()
        (finding,) = judge(probed(CHECK, hosts, tmp_path / "mixed"))
        assert finding.severity is Severity.ERROR
        assert "fd77::2" in finding.message
        (tmp_path / "nccl").mkdir()
        assert judge(probed(CHECK, hosts, tmp_path / "nccl", backend="nccl")) == []
