"""Forward and backward of a target in float32, or under bfloat16 autocast."""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from ddpcheck.target.live import LiveTarget, moved, settle
from ddpcheck.target.reference import steady


def timed_bf16_loss(live: LiveTarget, batch: Any, steps: int) -> tuple[float | None, float]:
    """Return ``timed_loss`` under bfloat16 autocast; no loss where it raises or is no number."""
    try:
        loss, fastest_s = timed_loss(live, batch, steps, bf16=True)
    except Exception:  # what the user's model does under autocast is no fault of the check
        live.module.zero_grad(set_to_none=True)
        return None, float("inf")
    return loss if math.isfinite(loss) else None, fastest_s


def timed_loss(
    live: LiveTarget, batch: Any, steps: int, *, bf16: bool = False
) -> tuple[float, float]:
    """Return the loss, and the fastest of ``steps`` passes after a warm-up in wall seconds."""
    placed = moved(batch, live.device)
    kind = torch.device(live.device).type
    fastest_s = float("inf")
    loss = torch.zeros(())
    with steady(live.module):
        for number in range(steps + 1):
            settle(live.device)
            started = time.perf_counter()
            with torch.autocast(kind, dtype=torch.bfloat16, enabled=bf16):
                loss = live.loss(live.module, placed)
            loss.backward()
            settle(live.device)
            if number:
                fastest_s = min(fastest_s, time.perf_counter() - started)
            live.module.zero_grad(set_to_none=True)
    return float(loss.detach()), fastest_s
