"""A context for probes that no run has made."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from ddpcheck.check import Context, Profile

ALONE = Context(
    rank=0,
    local_rank=0,
    world_size=1,
    environ={},
    host="node0",
    backend="gloo",
    device="cpu",
    profile=Profile.QUICK,
    clock=lambda: 0.0,
    timeout=timedelta(seconds=1),
)


def context_with(**changes: Any) -> Context:
    """Return the context of a rank that is alone on a CPU, with these changes."""
    return replace(ALONE, **changes)
