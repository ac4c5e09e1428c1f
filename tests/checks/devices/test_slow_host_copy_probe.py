from collections.abc import Callable
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
    ("known", "link", "width"),
    [
        (Gpu("GPU-1", pci="0000:17:00.0", pcie_width=16), 63.0, 16),
        (Gpu("GPU-1"), None, None),
        ("no", None, None),
    ],
)
def test_probe(
    monkeypatch: pytest.MonkeyPatch, known: Gpu | str, link: float | None, width: int | None
) -> None:
    monkeypatch.setattr(device_speed, "copy_gbps", always((53.04, 54.06)))
    asked: list[str] = []
    monkeypatch.setattr(slow_host_copy, "generation_of", {"cuda:0": (4, 5)}.__getitem__)

    def under_load(device: str, question: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        asked.append(device)
        return question()

    monkeypatch.setattr(device_speed, "asked_under_load", under_load)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    properties = SimpleNamespace(name="NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_properties", always(properties))
    monkeypatch.setattr(slow_host_copy, "gpu_of", always(known))
    monkeypatch.setattr(slow_host_copy, "link_gbps", {"0000:17:00.0": 63.0}.__getitem__)
    facts = probe(context_with(device="cuda:0"))
    assert facts == Facts("node0", "cuda:0", "NVIDIA H200", 53.0, 54.1, link, 4, 5, width)
    assert asked == ["cuda:0"]


@pytest.mark.parametrize("told", [(4, 5), None])
def test_a_generation_that_is_not_told_is_0(
    monkeypatch: pytest.MonkeyPatch, told: tuple[int, int] | None
) -> None:
    monkeypatch.setattr(device_speed, "copy_gbps", always((53.0, 54.0)))
    monkeypatch.setattr(device_speed, "asked_under_load", always(told))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    properties = SimpleNamespace(name="NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_properties", always(properties))
    monkeypatch.setattr(slow_host_copy, "gpu_of", always("no"))
    facts = probe(context_with(device="cuda:0"))
    assert (facts.generation, facts.best_generation) == (told or (0, 0))
