import msgspec
import pytest

from ddpcheck.checks.devices.slow_matmul import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity


def job(*tflops: float, **changed: object) -> dict[int, Facts]:
    own = {n: Facts("node0", f"cuda:{n}", "NVIDIA H200", speed) for n, speed in enumerate(tflops)}
    return {n: msgspec.structs.replace(each, **changed) for n, each in own.items()}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(job(10.0), id="alone, however slow"),
        pytest.param(job(809.0, 799.0), id="as two healthy H200s"),
        pytest.param(job(809.0, 697.0), id="one of them at its power limit"),
        pytest.param(job(60.0) | {1: Facts("n", "cuda:1", "Tesla T4", 20.0)}, id="two models"),
        pytest.param(job(400.0, 400.0, 400.0), id="all are slow"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_slow_gpu_is_named_with_its_peers() -> None:
    (found,) = judge(job(800.0, 600.0, 790.0, 790.0))
    assert (found.severity, found.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert found.ranks == (1,)
    assert "rank 1 (node0, cuda:1) 600 TFLOP/s, 76% of the median 790" in found.message
    assert "nvidia-smi" in found.fix


def test_many_ranks_are_no_wall_of_text() -> None:
    (found,) = judge(job(*[800.0] * 600, *[400.0] * 400))
    assert len(found.ranks) == 400
    assert "and 392 more" in found.message


def test_summary() -> None:
    assert "600 TFLOP/s at least, 790" in summarize(job(800.0, 600.0, 790.0))
