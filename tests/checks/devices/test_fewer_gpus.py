import pytest

from ddpcheck.checks.devices.fewer_gpus import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity


def job(*gpus: int, ranks_per_host: int = 0) -> dict[int, Facts]:
    """Return a rank on each GPU of hosts that show so many; or so many ranks on each host."""
    places = [
        (host, shown) for host, shown in enumerate(gpus) for _ in range(ranks_per_host or shown)
    ]
    return {
        rank: Facts(f"node{host}", f"boot{host}", shown)
        for rank, (host, shown) in enumerate(places)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(job(8), id="one host"),
        pytest.param(job(8, 8), id="two alike"),
        pytest.param(job(8, 8, ranks_per_host=7), id="one GPU of each is left alone"),
        pytest.param(job(8, 8, 16), id="one with more"),
        pytest.param(job(*[1] * 100), id="a GPU a pod"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_gpu_that_is_missing_on_one_of_two_hosts() -> None:
    (finding,) = judge(job(8, 7))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.ranks == tuple(range(8, 15))
    assert finding.message == "node1 shows 7 GPUs, the others 8"
    assert "on node1: nvidia-smi -L" in finding.fix


def test_what_most_hosts_show_is_the_measure() -> None:
    (finding,) = judge(job(8, 6, 8, 16, 5))
    assert "node1 shows 6, node4 shows 5 GPUs, the others 8" in finding.message
    assert finding.ranks == (*range(8, 14), *range(38, 43))


@pytest.mark.parametrize("fewer", [4, 2, 1])
def test_a_host_of_another_kind_is_worth_knowing(fewer: int) -> None:
    (finding,) = judge(job(8, fewer))
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.LOW)


def test_hosts_of_one_name_are_told_apart() -> None:
    facts = {rank: Facts("gpu", f"boot{rank // 8}", 8 - rank // 8) for rank in range(15)}
    (finding,) = judge(facts)
    assert finding.ranks == tuple(range(8, 15))


def test_summary() -> None:
    assert summarize(job(8, 7)) == "7 or 8 GPUs a host"
