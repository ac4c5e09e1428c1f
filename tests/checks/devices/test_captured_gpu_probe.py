"""What NVML said of a healthy H200 beside another one, and the same with one thing wrong.

Captured on Linux 6, driver 580.159.04, NVML through nvidia-ml-py; the UUIDs are made up.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.finding import Finding, Severity
from ddpcheck.machine.gpu import Gpu
from ddpcheck.target import device_speed

CAPTURED = Path(__file__).parents[2] / "machine" / "captured" / "h200.json"
HEALTHY = msgspec.json.decode(CAPTURED.read_bytes(), type=Gpu)
CHECKS = (
    "exclusive_mode",
    "foreign_processes",
    "memory_errors",
    "narrow_pcie_link",
    "nvlink_down",
    "peer_access_blocked",
    "throttled",
)


def module_of(check: str) -> ModuleType:
    return import_module(f"ddpcheck.checks.devices.{check}")


def findings(check: str, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """Return what the check finds above info on two ranks, the second on this GPU."""
    module = module_of(check)
    facts: dict[int, Any] = {}
    for rank, each in enumerate([HEALTHY, gpu]):
        monkeypatch.setattr(module, "gpu_of", always(each))
        monkeypatch.setattr(device_speed, "seen_at_work", always([each.speed]))
        on_gpu = context_with(device=f"cuda:{rank}", rank=rank, local_rank=rank, backend="nccl")
        facts[rank] = module.probe(on_gpu)
    found: list[Finding] = module.judge(facts)
    return [each for each in found if each.severity is not Severity.INFO]


@pytest.mark.parametrize("check", CHECKS)
def test_a_real_healthy_gpu_is_no_finding(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(check, HEALTHY, monkeypatch) == []


def test_its_record_says_what_nvidia_smi_said() -> None:
    assert (HEALTHY.name, HEALTHY.pcie_width, len(HEALTHY.links)) == ("NVIDIA H200", 16, 18)
    assert (HEALTHY.compute_mode, HEALTHY.recovery, HEALTHY.mig) == ("default", "none", False)


def test_the_same_gpu_with_a_link_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    down = msgspec.structs.replace(HEALTHY.links[0], active=False)
    broken = msgspec.structs.replace(HEALTHY, links=(down, *HEALTHY.links[1:]))
    (finding,) = findings("nvlink_down", broken, monkeypatch)
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))


def test_the_same_gpu_that_failed_to_remap_a_row_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert HEALTHY.memory is not None
    memory = msgspec.structs.replace(HEALTHY.memory, remap_failed=True)
    broken = msgspec.structs.replace(HEALTHY, memory=memory)
    (finding,) = findings("memory_errors", broken, monkeypatch)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))


def test_where_nvml_is_absent_its_reason_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for check in CHECKS:
        module = module_of(check)
        monkeypatch.setattr(module, "gpu_of", always("NVML is not there"))
        with pytest.raises(Skip, match="NVML is not there"):
            module.probe(context_with(device="cuda:0"))
