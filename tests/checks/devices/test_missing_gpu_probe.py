import pytest
import torch
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices.missing_gpu import Facts, probe

HIDDEN = "CUDA_VISIBLE_DEVICES is ''"


def test_probe_counts_what_the_process_sees() -> None:
    assert probe(context_with(gpus=8)) == Facts("node0", 8, "")
    assert probe(context_with(gpus=8, backend="nccl", asked_backend="nccl")).gpus == 8


def test_probe_says_why_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert probe(context_with(environ={"CUDA_VISIBLE_DEVICES": ""})) == Facts("node0", 0, HIDDEN)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert probe(context_with()) == Facts("node0", 0, "torch is built without CUDA")


def test_who_asked_for_the_cpu_needs_no_gpu() -> None:
    with pytest.raises(Skip, match="the CPU was asked for"):
        probe(context_with(asked_backend="gloo", gpus=8))
