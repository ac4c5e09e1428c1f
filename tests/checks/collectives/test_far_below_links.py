import pytest
from contexts import context_with

from ddpcheck.check import Joining, Skip
from ddpcheck.checks.collectives.far_below_links import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.ways import Way

MIB = 2**20
NVLINK = Way(1, 478.1, "18 NVLinks of 26.6 GB/s")


def ranks(
    gbps: float, *ways: Way | None, settings: dict[str, str] | None = None
) -> dict[int, Facts]:
    """Return two ranks that reach this bus bandwidth."""
    took_s = 256 * MIB / gbps / 1e9
    each = ways or (NVLINK, Way(0, NVLINK.gbps, NVLINK.words))
    return {
        rank: Facts(2, 256 * MIB, took_s, (way,) if way else None, settings or {})
        for rank, way in enumerate(each)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(299.2), id="2 H200 as measured"),
        pytest.param(ranks(38, Way(1, 50, "mlx5_0:1, 400 Gbit/s"), NVLINK), id="a network card"),
        pytest.param(ranks(10, None, None), id="nobody knows"),
        pytest.param(ranks(10, NVLINK, None), id="one does not know"),
        pytest.param(ranks(4.3, Way(1, 12.5, "eth0"), Way(0, 12.5, "eth0")), id="a bit below half"),
    ],
)
def test_what_the_links_allow_is_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_small_part_is_a_warning_with_both_figures() -> None:
    (finding,) = judge(ranks(30))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert "all_reduce of 256 MiB has 30 GB/s bus bandwidth" in finding.message
    assert "rank 0 to 1, carries 478 GB/s (18 NVLinks of 26.6 GB/s), limit 30%" in finding.message
    assert "nvidia-smi" in finding.fix


def test_the_setting_that_may_cause_it_is_named() -> None:
    (finding,) = judge(ranks(30, settings={"NCCL_MAX_NCHANNELS": "1"}))
    assert "NCCL_MAX_NCHANNELS=1" in finding.message
    assert finding.fix == "unset NCCL_MAX_NCHANNELS, unless it is meant"


def test_the_slowest_way_of_all_counts() -> None:
    (finding,) = judge(ranks(2, NVLINK, Way(0, 25, "mlx5_0:1, 200 Gbit/s")))
    assert "from rank 1 to 0, carries 25 GB/s" in finding.message


def test_summary() -> None:
    assert "299 GB/s bus bandwidth of 478 (18 NVLinks" in summarize(ranks(299.2))
    assert "does not tell" in summarize(ranks(299.2, None, None))


def test_a_run_on_cpus_is_skipped() -> None:
    joining = Joining("gloo", 0.1)
    with pytest.raises(Skip, match="no GPU"):
        probe(context_with(joining=joining))
