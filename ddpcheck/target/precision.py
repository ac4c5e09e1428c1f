"""Forward and backward of a target in float32, or under bfloat16 autocast."""

from __future__ import annotations

import time
from typing import Any

import torch

from ddpcheck.target.live import LiveTarget, moved
from ddpcheck.target.reference import steady


def timed_loss(live: LiveTarget, batch: Any, steps: int, *, bf16: bool) -> tuple[float, float]:
    """Return the loss, and the fastest of ``steps`` passes after a warm-up in wall seconds."""
    placed = moved(batch, live.device)
    kind = torch.device(live.device).type
    fastest_s = float("inf")
    loss = torch.zeros(())
    with steady(live.module):
        for number in range(steps + 1):
            _settle(live.device)
            started = time.perf_counter()
            with torch.autocast(kind, dtype=torch.bfloat16, enabled=bf16):
                loss = live.loss(live.module, placed)
            loss.backward()
            _settle(live.device)
            if number:
                fastest_s = min(fastest_s, time.perf_counter() - started)
            live.module.zero_grad(set_to_none=True)
    return float(loss.detach()), fastest_s


def _settle(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)
