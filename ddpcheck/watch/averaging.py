"""Among which ranks a script's gradients are averaged."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.distributed import get_world_size

from ddpcheck.finding import Location
from ddpcheck.target.live import Trained
from ddpcheck.watch.losses import Losses
from ddpcheck.watch.replicas import group_of


class Averaging:
    """Hears of DistributedDataParallel, and of FSDP where that is over a mesh that is known.

    ``ranks`` is empty where neither was seen. ``module`` is what FSDP sharded last, at ``location``:
    the whole model, if it was. Of those that FSDP shards a model among, some may
    work on one batch together, each on its part of the sequence: they ``work_together`` where a
    backward pass of the script's own goes through collectives, or else come to equal losses.
    """

    def __init__(self) -> None:
        self._replicated: tuple[int, ...] = ()
        self._sharded: tuple[int, ...] = ()
        self.module: nn.Module | None = None
        self.location: Location | None = None
        self._is_joint = False
        self._losses = Losses()

    @property
    def ranks(self) -> tuple[int, ...]:
        """Return the ranks, in order; this rank's own group where there are several."""
        return self._replicated or self._sharded

    @property
    def work_together(self) -> bool:
        """Return whether a backward pass went through collectives, and not to be averaged by DDP."""
        return self._is_joint and self._shards

    def read_losses(self, *, of_ddp: bool = False) -> tuple[float, ...]:
        """Return the first losses where FSDP averages the gradients, or DDP, too; waits for the device."""
        return self._losses.read() if self._shards or of_ddp else ()

    @property
    def _shards(self) -> bool:
        return not self._replicated and bool(self._sharded)

    def on_built(self, live: Trained) -> None:
        """Note DDP's group."""
        if live.ddp is not None:
            self._replicated = group_of(live.ddp)

    def on_sharded(self, module: nn.Module, mesh: Any, location: Location | None) -> None:
        """Note the mesh; the whole model is sharded last."""
        self.module, self.location = module, location
        ranks = range(get_world_size()) if mesh is None else mesh.mesh.flatten().tolist()
        self._sharded = tuple(sorted(ranks))

    def on_joint(self, _ranks: tuple[int, ...]) -> None:
        """Note that ranks have parts of one backward pass."""
        self._is_joint = True

    def on_loss(self, step: int, loss: Tensor) -> None:
        """Keep one of the first losses, where it is."""
        self._losses.on_loss(step, loss)
