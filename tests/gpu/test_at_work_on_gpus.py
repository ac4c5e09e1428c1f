"""What is read of a real GPU while it works: pytest -n 0 -m gpus."""

import time

import pytest
import torch

from ddpcheck.checks.devices.throttled import SIZE, lasting
from ddpcheck.machine.gpu import speed_of
from ddpcheck.target.device_speed import LOOKS_COUNT, seen_at_work

pytestmark = pytest.mark.gpus
DEVICE = "cuda:0"


def test_every_look_finds_the_gpu_at_work() -> None:
    torch.cuda.set_device(DEVICE)
    busy = seen_at_work(DEVICE, SIZE, lambda: not torch.cuda.current_stream().query())
    assert busy == [True] * (LOOKS_COUNT - 1)


def test_a_healthy_gpu_at_work_is_not_slowed_and_costs_little_time() -> None:
    torch.cuda.set_device(DEVICE)
    seen_at_work(DEVICE, SIZE, lambda: None)  # what starting the libraries takes is not of it
    began = time.monotonic()
    speeds = seen_at_work(DEVICE, SIZE, lambda: speed_of(DEVICE))
    assert time.monotonic() - began < 1.0
    told = lasting(speeds)
    assert told.slowdowns == ()
    assert told.clock_mhz is not None
    assert told.max_clock_mhz is not None
    assert told.clock_mhz > told.max_clock_mhz / 2
