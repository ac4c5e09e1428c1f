from typing import Any

import pytest
from standings import stands

from ddpcheck.checks.network.virtual_interface import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity

Used = tuple[str, str]
VETH: Used = ("veth42", "fe80::42")


def hosts_with(*others: Used, count: int = 2, **changes: Any) -> dict[int, Facts]:
    """Return ranks on hosts that use eth0 and these."""
    return {
        r: Facts(stands(f"node{r}", ("eth0", f"10.0.0.{r % 250}"), *others, **changes))
        for r in range(count)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(hosts_with(), id="healthy"),
        pytest.param(hosts_with(VETH, count=1), id="one host"),
        pytest.param(hosts_with(VETH, setting="eth,veth"), id="named"),
        pytest.param(hosts_with(VETH, has_rdma=True), id="InfiniBand"),
        pytest.param(
            {r: Facts(stands(f"n{r}", ("tun0", f"10.8.0.{r}"))) for r in range(2)},
            id="nothing but a tunnel",
        ),
        pytest.param(
            {
                r: Facts(stands(f"n{r}", ("eth0", f"10.0.0.{r}"), ("eth1", f"10.1.0.{r}")))
                for r in range(2)
            },
            id="two networks",
        ),
        pytest.param({r: Facts(stands(f"n{r}")) for r in range(2)}, id="none at all"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("others", "setting", "word"),
    [
        ([VETH], "", "veth42 (fe80::42 is link-local)"),
        ([VETH], "^docker,lo", "veth42"),
        ([("virbr0", "192.168.122.1")], "^docker,lo", "192.168.122.1 is on several hosts"),
        ([("tun0", "10.8.0.2"), VETH], "", "tun0"),
    ],
)
def test_found(others: list[Used], setting: str, word: str) -> None:
    (finding,) = judge(hosts_with(*others, setting=setting))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.ranks == (0, 1)
    assert word in finding.message
    assert "beside eth0 (10.0.0.0)" in finding.message
    assert "export NCCL_SOCKET_IFNAME=eth0 on node0, node1" in finding.fix


def test_only_the_ranks_that_would_use_them_are_named() -> None:
    (finding,) = judge(hosts_with(count=4) | {2: hosts_with(VETH, count=3)[2]})
    assert finding.ranks == (2,)


def test_many_interfaces_on_many_hosts_are_one_short_finding() -> None:
    many = [(f"cali{number}", f"fe80::{number:x}") for number in range(1, 16)]
    (finding,) = judge(hosts_with(*many, count=500))
    assert len(finding.ranks) == 500
    assert len(finding.message) < 8000


def test_summary() -> None:
    assert summarize(hosts_with(VETH)) == "NCCL would use eth0, veth42"
