import pytest
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices import exclusive_mode
from ddpcheck.checks.devices.exclusive_mode import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.gpu import Gpu, Process


def gpu(uuid: str, mode: str | None = "default", mig: bool = False, mps: bool = False) -> Facts:
    return Facts("node0", uuid, mode, mig, mps)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: gpu("a")}, id="one rank"),
        pytest.param({rank: gpu(f"{rank}") for rank in range(8)}, id="a GPU each"),
        pytest.param({0: gpu("a"), 1: gpu("a")}, id="shared, which others tell"),
        pytest.param(
            {0: gpu("a", "exclusive process"), 1: gpu("b", "exclusive process")}, id="one each"
        ),
        pytest.param(
            {rank: gpu("a", "exclusive process", mps=True) for rank in range(4)}, id="MPS"
        ),
        pytest.param({0: gpu("a", None)}, id="unknown"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_prohibited_gpu_is_an_error() -> None:
    (finding,) = judge({0: gpu("a"), 1: gpu("b", "prohibited")})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
    assert "rank 1 (node0, b): compute mode prohibited" in finding.message
    assert "-c DEFAULT" in finding.fix


def test_ranks_that_share_an_exclusive_gpu_are_an_error() -> None:
    shared = gpu("a", "exclusive process")
    (finding,) = judge({0: gpu("b", "exclusive process"), 1: shared, 2: shared})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1, 2))
    assert "-c DEFAULT" in finding.fix


@pytest.mark.parametrize("mode", ["default", "exclusive process"])
def test_slices_are_worth_knowing(mode: str) -> None:
    (finding,) = judge({0: gpu("a", mode, mig=True), 1: gpu("a", mode, mig=True)})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 1))
    assert "MIG" in finding.message
    assert "-mig 0" in finding.fix


def test_many_ranks_are_one_finding() -> None:
    (finding,) = judge({rank: gpu(f"{rank}", "prohibited") for rank in range(1000)})
    assert len(finding.ranks) == 1000
    assert finding.message.endswith("; and 992 more")


def test_summary() -> None:
    assert summarize({0: gpu("a"), 1: gpu("b", None)}) == "compute mode default, unknown"


@pytest.mark.parametrize(("name", "mps"), [("nvidia-cuda-mps-server", True), ("python", False)])
def test_probe(name: str, mps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = (Process(7, name, None, graphical=False),)
    own = Gpu("GPU-1", compute_mode="exclusive process", mig=False, processes=processes)
    monkeypatch.setattr(exclusive_mode, "gpu_of", {"cuda:1": own}.get)
    assert probe(context_with(device="cuda:1")) == gpu("GPU-1", "exclusive process", mps=mps)


@pytest.mark.parametrize(
    ("device", "reason"), [("cpu", "this run uses no GPU"), ("cuda:0", "Driver Not Loaded")]
)
def test_what_cannot_be_measured_is_skipped(
    device: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusive_mode, "gpu_of", always("NVML: Driver Not Loaded"))
    with pytest.raises(Skip, match=reason):
        probe(context_with(device=device))
