"""DDP's broadcast overwrites a buffer that a backward pass still needs.

Why it matters
    DistributedDataParallel writes rank 0's buffers into those of the other ranks before each
    forward pass. With two forward passes before one backward pass, as of a GAN's discriminator or a
    siamese network, the first graph computes gradients with values that it never saw: wrong ones,
    on all ranks but 0, without an error. (Older versions of torch raise: "modified by an inplace
    operation".)

What to do
    Put both batches through one forward pass (torch.cat), or call backward after each; or wrap with
    broadcast_buffers=False, and keep the buffers alike yourself where that matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.words import listed, spans

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.held_buffers import HeldBuffers


class Overwrite(msgspec.Struct, frozen=True):
    """A buffer that another value was written into, by the forward pass at ``location``."""

    name: str
    step: int
    location: Location | None


class Facts(msgspec.Struct, frozen=True):
    """What was overwritten on a rank, in order."""

    overwrites: tuple[Overwrite, ...]


class Observer:
    """Looks at the buffers that graphs hold, from the second forward pass on."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._step = 0
        self._has_ddp = False
        self._watches: list[HeldBuffers] = []

    def on_built(self, live: Trained) -> None:
        """Put hooks on the model, and on those that are trained beside it."""
        from ddpcheck.watch.held_buffers import HeldBuffers

        if live.ddp is None or not self._ctx.watches:
            return
        self._has_ddp = True
        wrapped = [each for each in (live.ddp, *live.beside) if each.broadcast_buffers]
        self._watches = [HeldBuffers(each, each.module, lambda: self._step) for each in wrapped]

    def on_step(self, step: int) -> None:
        """Note that the next step begins."""
        self._step = step + 1

    def facts(self) -> Facts:
        """Return what was overwritten; raises Skip where no script trains through DDP."""
        self._ctx.require_watch()
        if not self._has_ddp:
            raise Skip("no model was trained through DistributedDataParallel")
        told = (each for watch in self._watches for each in watch.close())
        return Facts(tuple(Overwrite(each.name, each.step, each.location) for each in told))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding where some rank computed gradients with a buffer of another forward pass."""
    first = {rank: own.overwrites[0] for rank, own in sorted(facts.items()) if own.overwrites}
    if not first:
        return []
    earliest = min(first.values(), key=lambda each: each.step)
    names = {each.name for own in facts.values() for each in own.overwrites}
    return [
        Finding(
            title="a buffer was overwritten before the backward pass that needs it",
            message=f"in step {earliest.step} on (rank {spans(first)}) a second forward pass through "
            f"DistributedDataParallel wrote rank 0's values into {listed(sorted(names))}, which the "
            "first one's backward pass computed with afterwards: its gradients are wrong",
            fix="put both batches through one forward pass (torch.cat), call backward after each, or "
            "wrap with broadcast_buffers=False",
            ranks=tuple(first),
            severity=Severity.WARNING,
            confidence=Confidence.HIGH,
            location=earliest.location,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many buffers were overwritten too early."""
    count = sum(len(own.overwrites) for own in facts.values())
    return f"{count} buffers were overwritten before their backward pass"
