"""The process group of a training: joined, left, or pretended."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.errors import LaunchError


@dataclass(frozen=True)
class World:
    """How ranks join a process group: where they meet, and by which backend."""

    store: Store
    backend: str
    device: torch.device
    timeout: timedelta

    def join(self, name: str, rank: int, size: int) -> None:
        """Join the group of this name, as one of ``size`` ranks; raises LaunchError if it fails."""
        try:
            dist.init_process_group(
                self.backend,
                store=PrefixStore(name, self.store),
                rank=rank,
                world_size=size,
                timeout=self.timeout,
                # Bound to its GPU, NCCL connects at once: faults show here, not amid training.
                device_id=self.device if self.device.type == "cuda" else None,
            )
        except (RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise LaunchError(f"cannot join the process group of the training: {reason}") from error

    @contextmanager
    def of_some(self, name: str, rank: int, size: int) -> Generator[None]:
        """Be one of the first ``size`` ranks, as if there were no others."""
        self.join(name, rank, size)
        try:
            yield
        finally:
            dist.destroy_process_group()


@contextmanager
def pretended(rank: int, size: int) -> Generator[None]:
    """Be a rank whose collectives return at once, with whatever is in their memory.

    So a step takes what it computes, and nothing else. Sums of arbitrary numbers may be so small
    that processors take many times as long for them: those are taken for zero meanwhile.
    """
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
    flushes = torch.set_flush_denormal(True)
    try:
        with _instant_ddp():
            yield
    finally:
        if flushes:
            torch.set_flush_denormal(False)
        dist.destroy_process_group()


@contextmanager
def _instant_ddp() -> Generator[None]:
    """Have DDP made with buckets that are ready at once: it cannot read what the group returns."""
    kind: Any = DistributedDataParallel
    init, register = kind.__init__, kind.register_comm_hook

    def made(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        register(self, None, _ready)

    def ignored(*_given: Any) -> None:
        """Take no other hook."""

    kind.__init__, kind.register_comm_hook = made, ignored
    try:
        yield
    finally:
        kind.__init__, kind.register_comm_hook = init, register


def _ready(_state: object, bucket: Any) -> torch.futures.Future[torch.Tensor]:
    ready: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    ready.set_result(bucket.buffer())
    return ready


# DDP takes a hook without annotations, or with its own, which type checkers do not know.
_ready.__annotations__.clear()
