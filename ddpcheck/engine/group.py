"""What a rank is and has: its presence, its device, its process group."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.cuda import nccl

from ddpcheck.check import Context
from ddpcheck.engine.entries import Present
from ddpcheck.errors import DdpcheckError
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.meeting import join_store, key_prefix
from ddpcheck.launch.stores import PrefixStore
from ddpcheck.machine.driver import why_no_gpu

# A collective that hangs is found by the sentinels, who know where each rank is: the group's own
# timeout, which only makes the waiting ranks raise, comes after them.
GROUP_SLACK = timedelta(seconds=10)


def presence(who: Identity, backend: str) -> Present:
    """Return what this process says of itself at the roll call."""
    gpus = torch.cuda.device_count()
    built_for = torch.version.cuda or torch.version.hip or ""
    blind = backend == "nccl" and not gpus
    return Present(
        rank=who.rank,
        local_rank=who.local_rank,
        world_size=who.world_size,
        host=who.host,
        pid=os.getpid(),
        gpus=gpus,
        backend=backend,
        launcher=who.launcher,
        versions=_versions(),
        blindness=why_no_gpu(os.environ, built_for) if blind else "",
    )


def device_of(backend: str, local_rank: int) -> str:
    """Return the device of a rank.

    Where a rank sees fewer GPUs than its LOCAL_RANK asks for, it gets one of those it sees:
    the checks of the devices stage say whether that is a fault.
    """
    count = torch.cuda.device_count()
    return f"cuda:{local_rank % count}" if backend == "nccl" and count else "cpu"


def join_group(who: Identity, ctx: Context) -> str | None:
    """Make the process group under test, through a store client of its own.

    Returns what went wrong, or None.
    """
    try:
        store = join_store(who, ctx.timeout.total_seconds())
        dist.init_process_group(
            ctx.backend,
            store=PrefixStore(f"{key_prefix(who)}/group", store),
            rank=ctx.rank,
            world_size=ctx.world_size,
            timeout=ctx.timeout + GROUP_SLACK,
            device_id=torch.device(ctx.device) if ctx.on_gpu else None,
        )
    except (DdpcheckError, RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
    return None


def leave_group() -> None:
    """Leave the process group, if there is one; peers that wait for this rank see it go."""
    if dist.is_initialized():
        with suppress(RuntimeError):  # its peers may be gone already
            dist.destroy_process_group()


def abort_group() -> None:
    """Leave the process group in a way that waits for nobody.

    gloo closes its connections, so that peers that wait for this rank fail at once; NCCL only
    lets go of this rank's own part, and its peers wait on.
    """
    if dist.is_initialized() and dist.get_backend() == "nccl":
        # Destroying would wait for kernels that never end.
        dist.distributed_c10d._abort_process_group()
    else:
        leave_group()


def _versions() -> dict[str, str]:
    versions = {"python": sys.version.split()[0], "torch": str(torch.__version__)}
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
        versions["nccl"] = ".".join(str(part) for part in nccl.version())
    return versions
