from types import SimpleNamespace

import pytest
import torch
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices import slow_host_copy
from ddpcheck.checks.devices.slow_host_copy import Facts, probe
from ddpcheck.machine.gpu import Gpu
from ddpcheck.target import device_speed


def test_a_cpu_run_is_skipped() -> None:
    with pytest.raises(Skip, match="no GPU"):
        probe(context_with())


@pytest.mark.parametrize(
    ("known", "link"),
    [(Gpu("GPU-1", pci="0000:17:00.0"), 63.0), (Gpu("GPU-1"), None), ("no", None)],
)
def test_probe(monkeypatch: pytest.MonkeyPatch, known: Gpu | str, link: float | None) -> None:
    monkeypatch.setattr(device_speed, "copy_gbps", always((53.04, 54.06)))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    properties = SimpleNamespace(name="NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_properties", always(properties))
    monkeypatch.setattr(slow_host_copy, "gpu_of", always(known))
    monkeypatch.setattr(slow_host_copy, "link_gbps", {"0000:17:00.0": 63.0}.__getitem__)
    facts = probe(context_with(device="cuda:0"))
    assert facts == Facts("node0", "cuda:0", "NVIDIA H200", 53.0, 54.1, link)
