import msgspec
import pytest
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices import memory_errors
from ddpcheck.checks.devices.memory_errors import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.gpu import Gpu, Memory

# What an H200 and a consumer card without ECC tell.
CLEAN = Memory(0, 0, 0, 0, remap_pending=False, remap_failed=False)
SILENT = Memory()


def gpu(memory: Memory = CLEAN, fault: str = "", recovery: str | None = "none") -> Facts:
    return Facts("node0", "0000:17:00.0", fault, recovery, memory)


def with_errors(**changed: int | bool) -> Memory:
    return msgspec.structs.replace(CLEAN, **changed)


@pytest.mark.parametrize(
    "own",
    [
        gpu(),
        gpu(recovery=None),
        gpu(SILENT, recovery=None),
        gpu(with_errors(corrected=999)),
    ],
)
@pytest.mark.parametrize("world", [1, 8])
def test_silent(own: Facts, world: int) -> None:
    assert judge(dict.fromkeys(range(world), own)) == []


@pytest.mark.parametrize(
    ("own", "severity", "told", "fix"),
    [
        (gpu(SILENT, fault="GPU is lost"), Severity.ERROR, "GPU is lost", "--gpu-reset"),
        (gpu(recovery="node reboot"), Severity.ERROR, "node reboot", "reboot the host"),
        (gpu(with_errors(remap_failed=True)), Severity.ERROR, "failed", "replaced"),
        (gpu(with_errors(uncorrected=3), recovery=None), Severity.ERROR, "3 uncorrected", "reset"),
        (gpu(with_errors(uncorrected=3)), Severity.WARNING, "3 uncorrected", "--gpu-reset"),
        (gpu(with_errors(remap_pending=True)), Severity.WARNING, "next reset", "--gpu-reset"),
        (gpu(with_errors(uncorrected_ever=2, rows_remapped=1)), Severity.INFO, "1 rows", "-d ECC"),
        (gpu(with_errors(corrected=1000)), Severity.INFO, "1000 corrected", "-d ECC"),
    ],
)
def test_trouble_is_told_with_its_gpu(own: Facts, severity: Severity, told: str, fix: str) -> None:
    (finding,) = judge({0: gpu(), 1: own, 2: gpu()})
    assert (finding.severity, finding.ranks) == (severity, (1,))
    assert finding.message.startswith("rank 1 (node0, GPU 0000:17:00.0): ")
    assert told in finding.message
    assert fix in finding.fix


def test_a_gpu_is_named_under_its_worst_trouble_only() -> None:
    worst = gpu(with_errors(uncorrected=3, remap_pending=True, uncorrected_ever=9), "", "GPU reset")
    (finding,) = judge({0: worst})
    assert finding.severity is Severity.ERROR


def test_many_gpus_are_one_finding() -> None:
    (finding,) = judge(dict.fromkeys(range(1000), gpu(with_errors(remap_pending=True))))
    assert len(finding.ranks) == 1000
    assert finding.message.endswith("; and 992 more")


def test_summary_tells_who_counts() -> None:
    facts = {0: gpu(with_errors(uncorrected=3)), 1: gpu(SILENT)}
    assert summarize(facts) == "3 uncorrected memory errors on the 1 GPUs that count them"


def test_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Gpu("GPU-1", pci="0000:17:00.0", recovery="none", memory=CLEAN)
    monkeypatch.setattr(memory_errors, "gpu_of", {"cuda:1": own}.__getitem__)
    assert probe(context_with(device="cuda:1")) == gpu()


def test_a_lost_gpu_is_known_by_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Gpu("GPU-1", fault="GPU is lost")
    monkeypatch.setattr(memory_errors, "gpu_of", always(lost))
    assert probe(context_with(device="cuda:0")).pci == "GPU-1"


def test_without_a_gpu_or_a_driver_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Skip, match="this run uses no GPU"):
        probe(context_with(device="cpu"))
    monkeypatch.setattr(memory_errors, "gpu_of", always("NVML: Driver Not Loaded"))
    with pytest.raises(Skip, match="Driver Not Loaded"):
        probe(context_with(device="cuda:0"))
