import msgspec
import pytest
import torch
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.environment import old_driver
from ddpcheck.checks.environment.old_driver import Facts, probe


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(old_driver, "device_count", lambda: 2)
    monkeypatch.setattr(old_driver, "kernel_driver", lambda: "580.159.04")
    monkeypatch.setattr(old_driver, "supported_cuda", lambda: "13.0")
    monkeypatch.setattr(old_driver, "start_error", lambda: 803)
    return monkeypatch


def test_probe_on_a_gpu(machine: pytest.MonkeyPatch) -> None:
    told = Facts("node0", True, 2, "580.159.04", "13.0", "13.0", 0)
    assert probe(context_with(device="cuda:0")) == told
    machine.setattr(torch.cuda, "is_available", lambda: False)
    assert probe(context_with()) == msgspec.structs.replace(told, on_gpu=False, start_error=803)


def test_without_cuda_or_a_gpu_it_is_skipped(machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(Skip, match="no NVIDIA GPU"):
        probe(context_with(environ={"CUDA_VISIBLE_DEVICES": ""}))
    machine.setattr(old_driver, "device_count", lambda: 0)
    with pytest.raises(Skip, match="no NVIDIA GPU"):
        probe(context_with())
    machine.setattr(torch.version, "cuda", None)
    with pytest.raises(Skip, match="no CUDA"):
        probe(context_with())
