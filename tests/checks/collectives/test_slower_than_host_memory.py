import pytest
from contexts import context_with

from ddpcheck.check import Joining, Skip
from ddpcheck.checks.collectives.slower_than_host_memory import Facts, judge, probe, summarize
from ddpcheck.finding import Severity

MIB = 2**20


def ranks(gbps: float, *copies: float, direct: bool = True, **settings: str) -> dict[int, Facts]:
    """Return ranks that reach this bus bandwidth, and have such copies to or from the host."""
    size = len(copies)
    took_s = 2 * (size - 1) / size * 64 * MIB / gbps / 1e9
    return {rank: Facts(size, took_s, each, direct, settings) for rank, each in enumerate(copies)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(266, 55.4, 55.4), id="2 H200 with NVLink as measured"),
        pytest.param(ranks(20, 24.6, 24.6, 24.6, 24.6), id="PCI Express 4"),
        pytest.param(ranks(2.6, 25, 25, direct=False), id="through host memory, or not told"),
        pytest.param(ranks(2.6, 3.1, 25), id="a slow slot"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_the_direct_way_crawls() -> None:
    (finding,) = judge(ranks(2.6, 25, 24.5))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert "all_reduce of 64 MiB has 2.6 GB/s bus bandwidth from GPU to GPU" in finding.message
    assert "the slowest copy to or from the host, of rank 1, has 24.5 GB/s" in finding.message
    assert "NCCL_P2P_DISABLE=1" in finding.fix


def test_settings_that_may_cause_it_are_named() -> None:
    (finding,) = judge(ranks(2.6, 25, 25, NCCL_P2P_LEVEL="SYS"))
    assert finding.message.endswith("; NCCL_P2P_LEVEL=SYS")


def test_summary() -> None:
    assert summarize(ranks(266, 55, 56)) == (
        "266 GB/s from GPU to GPU; copies to or from the host at 55"
    )
    assert "not all told" in summarize(ranks(266, 55, 56, direct=False))


def test_it_needs_gpus_and_others() -> None:
    joining = Joining("gloo", 0.1)
    with pytest.raises(Skip, match="uses no GPU"):
        probe(context_with(joining=joining))
    with pytest.raises(Skip, match="no other rank"):
        probe(context_with(joining=joining, device="cuda:0"))
