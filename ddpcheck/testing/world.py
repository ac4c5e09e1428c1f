"""Which rank a test runs on, and the process group of its ranks."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from ddpcheck.testing.errands import Errand

CURRENT_TEST = "PYTEST_CURRENT_TEST"


@dataclass(frozen=True)
class World:
    """What the fixture ``ddpcheck_world`` gives.

    rank: 0 to size - 1. device: cpu over gloo, a GPU of its own over NCCL.
    """

    rank: int
    size: int
    device: torch.device

    @property
    def group(self) -> dist.ProcessGroup | None:
        """Return the group; whoever keeps it keeps its connections open."""
        return dist.group.WORLD if dist.is_initialized() else None


def variables(errand: Errand) -> dict[str, str]:
    """Return what torchrun would set, so that init_process_group() needs no argument.

    The store is hosted apart, as by torchrun's agent: no rank takes a port, and none can be taken.
    """
    return {
        "RANK": str(errand.rank),
        "LOCAL_RANK": str(errand.rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(errand.world_size),
        "LOCAL_WORLD_SIZE": str(errand.world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(errand.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }


@contextmanager
def variables_set(errand: Errand) -> Generator[None]:
    """Have these variables set meanwhile, and those that were there before afterwards."""
    own = variables(errand)
    before = {name: os.environ[name] for name in own if name in os.environ}
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)
        os.environ.update(before)


def join(errand: Errand) -> World:
    """Join the test's group, where it has one; the variables must be set."""
    backend = backend_of(errand)
    device = torch.device("cpu")
    if backend == "nccl":
        _require_gpus(errand.world_size)
        device = torch.device("cuda", errand.rank)
        torch.cuda.set_device(device)
    if errand.group:
        dist.init_process_group(
            backend,
            timeout=timedelta(seconds=errand.timeout_s),
            device_id=device if backend == "nccl" else None,
        )
    return World(errand.rank, errand.world_size, device)


def backend_of(errand: Errand) -> str:
    """Return nccl where each rank can have a GPU of its own, else gloo, if nothing else is asked."""
    if errand.backend != "auto":
        return errand.backend
    return "nccl" if torch.cuda.device_count() >= errand.world_size else "gloo"


def _require_gpus(count: int) -> None:
    found = torch.cuda.device_count()
    if found < count:
        pytest.fail(
            f"backend='nccl' takes {count} GPUs, one a rank: here are {found}", pytrace=False
        )


def set_threads(world_size: int, sessions: int) -> None:
    """Share the cores out among the ranks of all sessions, as pytest-xdist has several."""
    if "OMP_NUM_THREADS" not in os.environ:
        cores = len(os.sched_getaffinity(0))
        torch.set_num_threads(max(1, cores // (world_size * sessions)))


def marks() -> dict[str, object]:
    """Return what a test may leave changed in its process, and others would trip over."""
    return {
        "the working directory": str(Path.cwd()),
        "environment variables": {k: v for k, v in os.environ.items() if k != CURRENT_TEST},
        "torch's default dtype": torch.get_default_dtype(),
        "torch's default device": str(torch.get_default_device()),
        "whether gradients are recorded": torch.is_grad_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "the number of threads": torch.get_num_threads(),
    }


def worn(before: dict[str, object], after: dict[str, object]) -> str:
    """Return in words what has changed, or ''."""
    return ", ".join(name for name in before if before[name] != after[name])
