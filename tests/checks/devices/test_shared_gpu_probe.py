from types import SimpleNamespace

import pytest
import torch
from contexts import context_with

from ddpcheck.check import Context, Skip
from ddpcheck.checks.devices.shared_gpu import Facts, probe


def context(device: str, environ: dict[str, str]) -> Context:
    return context_with(
        rank=9,
        local_rank=1,
        world_size=16,
        environ=environ,
        host="node1",
        backend="nccl",
        device=device,
    )


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = SimpleNamespace(
        uuid="55c016a6-9d7d-046b-9d59-e5f62f91ed26",
        name="NVIDIA H100 80GB HBM3",
        total_memory=85_017_493_504,
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", {"cuda:1": seen}.__getitem__)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)


def test_a_cpu_run_is_skipped() -> None:
    with pytest.raises(Skip, match="no GPU"):
        probe(context("cpu", {}))


@pytest.mark.usefixtures("two_gpus")
def test_probe_tells_the_gpu_as_nvidia_smi_does() -> None:
    assert probe(context("cuda:1", {"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "2,3"})) == Facts(
        host="node1",
        local_rank=1,
        device_count=2,
        device="cuda:1",
        current_device=1,
        uuid="GPU-55c016a6-9d7d-046b-9d59-e5f62f91ed26",
        name="NVIDIA H100 80GB HBM3",
        memory_bytes=85_017_493_504,
        mask="CUDA_VISIBLE_DEVICES=2,3",
    )


@pytest.mark.usefixtures("two_gpus")
def test_a_guessed_local_rank_is_none() -> None:
    facts = probe(context("cuda:1", {"RANK": "9"}))
    assert (facts.local_rank, facts.mask) == (None, "CUDA_VISIBLE_DEVICES=not set")
