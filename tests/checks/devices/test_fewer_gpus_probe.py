import pytest
import torch
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices.fewer_gpus import Facts, probe


def test_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", always(7))
    on_gpu = context_with(device="cuda:0", host="node1", machine="boot1/4026531836")
    assert probe(on_gpu) == Facts("node1", "boot1/4026531836", 7)


@pytest.mark.parametrize(
    ("device", "environ", "reason"),
    [
        ("cpu", {}, "no GPU"),
        ("cuda:0", {"CUDA_VISIBLE_DEVICES": "0,1"}, "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_what_is_not_known_is_skipped(device: str, environ: dict[str, str], reason: str) -> None:
    with pytest.raises(Skip, match=reason):
        probe(context_with(device=device, environ=environ))
