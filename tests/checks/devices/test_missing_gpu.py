import pytest

from ddpcheck.checks.devices.missing_gpu import Facts, judge, summarize
from ddpcheck.finding import Severity

HIDDEN = "CUDA_VISIBLE_DEVICES is ''"
DEAD = "the GPUs are not ready (802)"


def seeing(*gpus: int, why: str = DEAD) -> dict[int, Facts]:
    """Return ranks, two on each host, that see so many GPUs."""
    return {r: Facts(f"node{r // 2}", n, "" if n else why) for r, n in enumerate(gpus)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(seeing(0), id="one rank on a CPU"),
        pytest.param(seeing(0, 0), id="a machine without GPUs"),
        pytest.param(seeing(*[0] * 512, why=HIDDEN), id="all hide them, on purpose"),
        pytest.param(seeing(8), id="one rank"),
        pytest.param(seeing(*[8] * 16), id="all see all"),
        pytest.param(seeing(*[1] * 16), id="each is shown its own"),
        pytest.param(seeing(8, 8, 4, 4), id="a host has fewer"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_the_ranks_of_one_host_without_gpus_are_named_with_the_cause() -> None:
    (finding,) = judge(seeing(*[8] * 14, 0, 0))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (14, 15))
    assert finding.message == f"rank 14-15 (node7): {DEAD}; 14 of 16 ranks see a GPU"
    assert "--gpus all" in finding.fix
    assert "--backend gloo" in finding.fix


def test_each_cause_is_told_in_one_finding() -> None:
    facts = seeing(8, 0, 0, 0) | {1: Facts("node0", 0, HIDDEN)}
    (finding,) = judge(facts)
    assert finding.ranks == (1, 2, 3)
    assert f"rank 1 (node0): {HIDDEN}; rank 2-3 (node1): {DEAD}" in finding.message


def test_most_ranks_may_be_the_blind_ones() -> None:
    (finding,) = judge(seeing(8, *[0] * 999))
    assert len(finding.ranks) == 999
    assert "and 492 more" in finding.message


def test_summary() -> None:
    assert summarize(seeing(0, 0)) == "each rank sees 0 GPU(s)"
    assert summarize(seeing(8, 8, 4)) == "each rank sees 4 or 8 GPU(s)"
