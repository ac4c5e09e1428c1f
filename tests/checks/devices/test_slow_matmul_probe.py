from types import SimpleNamespace

import pytest
import torch
from answers import always
from contexts import context_with

from ddpcheck.check import Profile, Skip
from ddpcheck.checks.devices.slow_matmul import Facts, probe
from ddpcheck.target import device_speed


def test_a_cpu_run_is_skipped() -> None:
    with pytest.raises(Skip, match="no GPU"):
        probe(context_with())


@pytest.mark.parametrize(("profile", "tflops"), [(Profile.QUICK, 810.0), (Profile.FULL, 700.0)])
def test_a_long_run_tells_the_speed_that_lasts(
    monkeypatch: pytest.MonkeyPatch, profile: Profile, tflops: float
) -> None:
    monkeypatch.setattr(device_speed, "matmul_tflops", always([720.0, 810.0, 700.0, 700.0, 690.0]))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    properties = SimpleNamespace(name="NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_properties", always(properties))
    facts = probe(context_with(device="cuda:0", profile=profile))
    assert facts == Facts("node0", "cuda:0", "NVIDIA H200", tflops)
