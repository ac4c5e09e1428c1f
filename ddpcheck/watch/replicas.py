"""Which ranks hold one model, and which of its parameters are the same on all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from threading import Lock

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.check import Skip
from ddpcheck.measures.digests import short_digest
from ddpcheck.measures.moments import Moments
from ddpcheck.target.live import Trained

# A training of more steps than that is watched to its end without them; so many are read at once.
KEPT_NORMS = 20_000
READ_AT_ONCE = 500
# No norm is negative.
ON_ITS_WAY = -1.0


def group_of(ddp: DistributedDataParallel) -> tuple[int, ...]:
    """Return the ranks among which DDP keeps the model alike."""
    return tuple(sorted(dist.get_process_group_ranks(ddp.process_group)))


def replicated(live: Trained) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters that are to be alike, by name; raises Skip where they are sharded."""
    apart = set(live.ddp.parameters_to_ignore) if live.ddp is not None else set()
    named = [each for each in live.module.named_parameters() if each[0] not in apart]
    # Of FSDP2 and tensor parallelism, and of FSDP1.
    if any(hasattr(p, "placements") or hasattr(p, "_fsdp_flattened") for _, p in named):
        raise Skip("the parameters are sharded: ranks hold different parts by design")
    return named


class Norms:
    """The 2-norms of parameters at moments in time; nothing waits for a GPU until they are read.

    Equal replicas have equal norms bit by bit, on GPUs of one model.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = parameters
        self._unread: deque[tuple[torch.Tensor, torch.cuda.Event | None]] = deque()
        self._digests: list[str] = []
        self._reading = Lock()
        self._count = 0
        self.note()

    def note(self) -> None:
        """Keep the norms as they are now, [parameters]."""
        if self._parameters and self._count < KEPT_NORMS:
            self._count += 1
            now = [each.detach() for each in self._parameters]  # .data may be another by now
            norms = torch.ops.aten._foreach_norm(now, 2)
            self._unread.append(_on_its_way(torch.stack([n.to(norms[0].dtype) for n in norms])))

    def digests(self) -> tuple[str, ...]:
        """Return a digest of each moment's norms; waits for the device."""
        with self._reading:
            while self._unread:
                norms, arrival = self._unread.popleft()
                if arrival is not None:
                    arrival.synchronize()
                self._digests.append(_digest_of(norms))
            return tuple(self._digests)

    def digests_since(self, moment: int) -> tuple[str, ...]:
        """Return those from a moment on that have arrived; never waits, in any thread."""
        if not self._reading.acquire(blocking=False):
            return ()
        try:
            for _ in range(min(len(self._unread), READ_AT_ONCE)):
                norms, _ = self._unread[0]
                if bool((norms == ON_ITS_WAY).any()):
                    break
                self._unread.popleft()
                self._digests.append(_digest_of(norms))
            return tuple(self._digests[moment:])
        finally:
            self._reading.release()


class Replica:
    """One rank's replica of the model that is trained, from step to step.

    ``apart_by_design`` is whether replicas are averaged every so many steps, and differ in between.
    """

    def __init__(self, live: Trained) -> None:
        self._live = live
        self._norms = Norms([each for _, each in replicated(live)])
        self._is_uneven = False

    def note(self) -> None:
        """Keep what tells whether replicas are alike after this step."""
        ddp = self._live.ddp
        self._is_uneven = self._is_uneven or (ddp is not None and allows_uneven(ddp))
        self._norms.note()

    @property
    def apart_by_design(self) -> bool:
        """Return whether replicas differ between two averages, as in post-local SGD."""
        hooks = self._live.ddp._comm_hooks if self._live.ddp is not None else []
        names = [type(state).__name__ for _, state in hooks] + [type(self._live.optimizer).__name__]
        return any("LocalSGD" in each for each in names)

    def told(self) -> tuple[tuple[str, ...], bool]:
        """Return a digest of each moment's norms, and whether they may differ; waits for the GPU."""
        return self._norms.digests(), self.apart_by_design

    def moments(self, group: tuple[int, ...], since: int) -> Moments | None:
        """Return what is known by now, from a moment on, where ranks can be compared."""
        # A step of one rank need not be that of another where they may run out of batches.
        if len(group) <= 1 or self._is_uneven or self.apart_by_design:
            return None
        return Moments(group, since, self._norms.digests_since(since))


def _on_its_way(norms: torch.Tensor) -> tuple[torch.Tensor, torch.cuda.Event | None]:
    """Return the tensor as it will be in the host's memory, and what tells when it is there.

    Another thread sees that by the values alone: to ask CUDA may block it, beside a main thread that
    waits for the device.
    """
    if not norms.is_cuda:
        return norms, None
    copied = torch.full_like(norms, ON_ITS_WAY, device="cpu", pin_memory=True)
    copied.copy_(norms, non_blocking=True)
    arrival = torch.cuda.Event()
    arrival.record(torch.cuda.current_stream(norms.device))
    return copied, arrival


def _digest_of(norms: torch.Tensor) -> str:
    return short_digest(repr(norms.tolist()))


def allows_uneven(ddp: DistributedDataParallel) -> bool:
    """Return whether ranks may run out of batches now: the script is inside of ``ddp.join()``."""
    return bool(ddp._join_config.enable)


def unsaved_buffers(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the buffers that no state_dict has, by name."""
    found = {
        f"{prefix}.{name}".lstrip("."): part._buffers.get(name)
        for prefix, part in module.named_modules()
        for name in part._non_persistent_buffers_set
    }
    return {name: each for name, each in found.items() if each is not None}


def coarsest_unit(module: nn.Module) -> float:
    """Return the largest relative rounding unit (eps) of its parameters' dtypes, 0 without any."""
    floating = [p.dtype for p in module.parameters() if p.is_floating_point()]
    return max((torch.finfo(dtype).eps for dtype in floating), default=0.0)


def whole_bytes(module: nn.Module) -> int:
    """Return the bytes of the parameters that are on the CPU as a whole, not as shards."""
    whole = [each for each in module.parameters() if not hasattr(each, "placements")]
    return sum(each.nbytes for each in whole if each.device.type == "cpu")
