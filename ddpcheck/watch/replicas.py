"""Which ranks hold one model, and which of its parameters are the same on all of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.check import Skip
from ddpcheck.measures.digests import short_digest
from ddpcheck.target.live import Trained

# A training of more steps than that is watched to its end without them.
KEPT_NORMS = 2000


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
    """The 2-norms of parameters at moments in time, kept where they are: nothing waits for a GPU.

    Equal replicas have equal norms bit by bit, on GPUs of one model.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = parameters
        self._kept: list[torch.Tensor] = []
        self.note()

    def note(self) -> None:
        """Keep the norms as they are now, [parameters]."""
        if self._parameters and len(self._kept) < KEPT_NORMS:
            now = [each.detach() for each in self._parameters]  # .data may be another by now
            norms = torch.ops.aten._foreach_norm(now, 2)
            self._kept.append(torch.stack([each.to(norms[0].dtype) for each in norms]))

    def digests(self) -> tuple[str, ...]:
        """Return a digest of each moment's norms."""
        return tuple(short_digest(repr(kept.tolist())) for kept in self._kept)


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
