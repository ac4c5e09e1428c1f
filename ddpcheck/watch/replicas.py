"""Which ranks hold one model, and which of its parameters are the same on all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.check import Skip
from ddpcheck.measures.digests import short_digest
from ddpcheck.measures.moments import Moments
from ddpcheck.measures.sketch import Sketch
from ddpcheck.target.live import Trained
from ddpcheck.target.sketch import sketch_all

# A training of more steps than that is watched to its end without them; so many are read at once.
KEPT_NORMS = 20_000
READ_AT_ONCE = 500
# Tensors of their own values; others may be in parts.
WHOLE = {nn.Parameter, torch.Tensor}
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


def replicated_beside(live: Trained) -> list[tuple[str, nn.Parameter]]:
    """Return those of other models in DDP on the same ranks, by the model's class and their name.

    Unlike the trained model's, their gradients may be on their way at the time of its steps.
    """
    own = {id(parameter) for parameter in live.module.parameters()}
    found: dict[str, nn.Parameter] = {}
    for number, ddp in enumerate(live.beside):
        apart = set(ddp.parameters_to_ignore)
        for name, each in ddp.module.named_parameters():
            if name not in apart and id(each) not in own and not hasattr(each, "placements"):
                found[f"{type(ddp.module).__name__}[{number}].{name}"] = each
    return list(found.items())


def sketched_plain(
    module: nn.Module, pick: Callable[[torch.Tensor], torch.Tensor | None]
) -> dict[str, Sketch]:
    """Return sketches of what is picked of the parameters that are not sharded."""
    own = ((n, p) for n, p in module.named_parameters() if type(p) in WHOLE)
    return sketch_all((n, pick(p)) for n, p in own if not hasattr(p, "_fsdp_flattened"))


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

    def release(self) -> None:
        """Keep the parameters alive no longer: there will be no more moments."""
        self._parameters = ()

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
        whole = replicated(live) + replicated_beside(live)
        self._norms = Norms([each for _, each in whole])
        own = () if live.ddp is None else (live.ddp,)
        self._ddps = (*own, *live.beside)
        self._is_uneven = False

    def sketch(self) -> dict[str, Sketch]:
        """Return sketches of the parameters as they are now, by name."""
        return sketch_all((*replicated(self._live), *replicated_beside(self._live)))

    def sketch_gradients(self) -> dict[str, Sketch]:
        """Return sketches of what the optimizer is about to use."""
        return sketch_all((name, each.grad) for name, each in replicated(self._live))

    def note(self) -> None:
        """Keep what tells whether replicas are alike after this step."""
        self._is_uneven = self._is_uneven or any(allows_uneven(ddp) for ddp in self._ddps)
        self._norms.note()

    @property
    def apart_by_design(self) -> bool:
        """Return whether replicas differ between two averages, as in post-local SGD."""
        hooks = [hook for ddp in self._ddps for hook in ddp._comm_hooks]
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
