from typing import Any

import msgspec
import pytest

from ddpcheck.checks.environment.old_driver import Facts, judge
from ddpcheck.finding import Confidence, Severity

HEALTHY = Facts("", True, 8, "580.159.04", "13.0", "13.0", 0)


def ranks(world: int = 16, hosts: int = 2, **changed: Any) -> dict[int, Facts]:
    return {
        r: msgspec.structs.replace(HEALTHY, host=f"node{r * hosts // world}", **changed)
        for r in range(world)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(), id="the same version"),
        pytest.param(ranks(1, 1), id="one rank"),
        pytest.param(ranks(driver="590.44", supported="13.1"), id="a newer driver"),
        pytest.param(ranks(cuda="12.6"), id="a much newer driver"),
        pytest.param(ranks(driver="535.161.08"), id="a libcuda of cuda-compat"),
        pytest.param(ranks(driver="525.60.13", cuda="12.8", supported=""), id="the oldest for 12"),
        pytest.param(ranks(on_gpu=False), id="a CPU run on a machine with GPUs"),
        pytest.param(ranks(cuda="14.0", supported=""), id="a CUDA that is not in the table"),
        pytest.param(ranks(1000, 125), id="1000 ranks"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("driver", "supported", "cuda", "oldest"),
    [
        ("535.161.08", "12.2", "13.0", "580"),
        ("570.86.15", "12.8", "13.0", "580"),
        ("470.82.01", "11.4", "12.4", "525.60.13"),
        ("470.82.01", "", "12.4", "525.60.13"),
        ("525.60.12", "", "12.1", "525.60.13"),
        ("440.33", "10.2", "11.8", "450.80.02"),
    ],
)
def test_too_old_is_one_error_that_names_both_versions(
    driver: str, supported: str, cuda: str, oldest: str
) -> None:
    old = ranks(driver=driver, supported=supported, cuda=cuda, start_error=-1)
    facts = ranks() | {rank: own for rank, own in old.items() if own.host == "node1"}
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == tuple(range(8, 16))
    told = f"{finding.title} {finding.message}"
    assert [word for word in (driver, cuda, "node1") if word not in told] == []
    assert oldest in finding.fix


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (-1, "--gpus all"),
        (100, "MIG"),
        (802, "fabricmanager"),
        (803, "reboot"),
        (804, "cuda-compat"),
        (999, "nvidia-smi"),
    ],
)
def test_gpus_that_torch_does_not_see(error: int, words: str) -> None:
    (finding,) = judge(ranks(start_error=error))
    assert finding.severity is Severity.ERROR
    assert words in finding.fix


@pytest.mark.parametrize("changed", [{"start_error": 803}, {"supported": "12.2"}])
def test_a_run_on_the_cpu_may_be_meant(changed: dict[str, Any]) -> None:
    (finding,) = judge(ranks(on_gpu=False, **changed))
    assert finding.severity is Severity.WARNING


def test_minor_version_compatibility_is_told() -> None:
    (finding,) = judge(ranks(driver="535.161.08", supported="12.2", cuda="12.8"))
    assert finding.severity is Severity.INFO


def test_many_hosts_are_one_finding() -> None:
    (finding,) = judge(ranks(1000, 125, supported="12.2"))
    assert "and 117 more" in finding.message
