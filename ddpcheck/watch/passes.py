"""Counts what a script's model does between the steps of its optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ddpcheck.measures.passes import Passes
from ddpcheck.watch.replicas import allows_uneven, group_of

if TYPE_CHECKING:
    from torch.nn.parallel import DistributedDataParallel

    from ddpcheck.target.live import Trained
    from ddpcheck.watch.forwards import Forwards

# Beyond that, steps are counted all the same.
KEPT_STEPS = 2000


class StepPasses:
    """A part of an observer: the passes before each step, and all since the model is known.

    ``joins`` is whether ranks may run out of batches: others then make steps for them, or they for others.
    Those that are left out are told where there are ``forwards`` to look for them, which takes time.
    """

    def __init__(self, forwards: Forwards | None = None) -> None:
        self._now = Passes()
        self._forwards = forwards
        self.steps: list[Passes] = []
        self.total = Passes()
        self.live: Trained | None = None
        # At the end of the script there may be no group.
        self.group: tuple[int, ...] = ()
        self.joins = False

    @property
    def ddp(self) -> DistributedDataParallel | None:
        """Return the model that is trained, if it is DistributedDataParallel."""
        return self.live.ddp if self.live is not None else None

    def on_built(self, live: Trained) -> None:
        """Note which model is trained, and among which ranks."""
        self.live = live
        self.group = group_of(live.ddp) if live.ddp is not None else ()
        self.total = Passes()  # what was before is of another model

    def on_batch(self, _step: int, _batch: object) -> None:
        """Count a batch."""
        self._add(Passes(batches=1))

    def on_inputs(self, _step: int, _inputs: object) -> None:
        """Count a forward pass."""
        self.joins = self.joins or (self.ddp is not None and allows_uneven(self.ddp))
        self._add(Passes(forward=1))
        if self._forwards is not None:
            self._forwards.made(self.ddp)

    def on_loss(self, _step: int, loss: object) -> None:
        """Count a backward pass, which DDP averages if it is not told otherwise."""
        ddp = self.ddp
        if ddp is not None and self._forwards is not None:
            self._forwards.lost(loss, ddp)
        is_averaged = ddp is not None and ddp.require_backward_grad_sync
        self._add(Passes(backward=1, averaged=int(is_averaged)))

    def on_step(self, _step: int) -> None:
        """Begin another step."""
        if self._forwards is not None:
            self._add(Passes(left_out=self._forwards.left_out()))
        if len(self.steps) < KEPT_STEPS:
            self.steps.append(self._now)
        self._now = Passes()

    def _add(self, passes: Passes) -> None:
        self._now, self.total = _sum(self._now, passes), _sum(self.total, passes)


def _sum(one: Passes, other: Passes) -> Passes:
    pairs = zip(msgspec.structs.astuple(one), msgspec.structs.astuple(other), strict=True)
    return Passes(*(a + b for a, b in pairs))
