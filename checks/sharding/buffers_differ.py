"""A buffer of a sharded model differs between ranks.

Why it matters
    FSDP does not hand buffers on. One that no checkpoint holds, such as the frequencies of a
    rotary embedding, has random memory on ranks that made the model on the meta device and called
    to_empty: these ranks compute something else, and their gradients spoil everybody's.

What to do
    Compute such buffers again after to_empty on every rank (reset_parameters, init_weights), or
    send rank 0's with torch.distributed.broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location
from ddpcheck.measures.sketch import minority
from ddpcheck.measures.words import listed, spans

if TYPE_CHECKING:
    from torch import nn

KEPT_COUNT = 1000
# What FullyShardedDataParallel puts into names.
WRAPPED = "_fsdp_wrapped_module."


class Facts(msgspec.Struct, frozen=True):
    """A digest of each buffer that is in no checkpoint, by name, at the first backward pass."""

    digests: dict[str, str]
    location: Location | None = None


class Observer:
    """Notes the buffers of what was sharded over all ranks."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.averaging import Averaging

        self._ctx = ctx
        self._averaging = Averaging()
        self.parts = (self._averaging,)
        self._digests: dict[str, str] | None = None

    def on_loss(self, _step: int, _loss: object) -> None:
        """Digest the buffers, once: later ones may be statistics of a rank's own data."""
        # On a part of the ranks, experts say, buffers may differ.
        is_over_all = len(self._averaging.ranks) == self._ctx.world_size
        if self._averaging.module is not None and is_over_all and self._digests is None:
            digests = _digests(self._averaging.module)
            self._digests = dict(list(digests.items())[:KEPT_COUNT])

    def facts(self) -> Facts:
        """Return the digests; raises Skip where nothing was sharded."""
        self._ctx.require_watch()
        if self._digests is None:
            raise Skip("no model was sharded over all ranks and trained")
        return Facts(self._digests, self._averaging.location)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding with all buffers that differ, and the ranks that differ from the rest."""
    odd: dict[str, tuple[int, ...]] = {}
    for name in dict.fromkeys(name for own in facts.values() for name in own.digests):
        digests = {rank: own.digests.get(name, "") for rank, own in facts.items()}
        if len(set(digests.values())) > 1:
            odd[name] = minority(digests)
    if not odd:
        return []
    ranks = sorted({rank for each in odd.values() for rank in each})
    return [
        Finding(
            title=f"{len(odd)} buffers differ between the ranks of a sharded model",
            message=f"{listed(odd)}: rank {spans(ranks)} has other values than the rest, at the first "
            "backward pass",
            fix="compute them again on every rank after to_empty, or broadcast rank 0's",
            ranks=tuple(ranks),
            confidence=Confidence.HIGH,
            location=facts[min(facts)].location,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many buffers were compared."""
    return f"{len(next(iter(facts.values())).digests)} buffers compared"


def _digests(module: nn.Module) -> dict[str, str]:
    from ddpcheck.target.sketch import sketch_all
    from ddpcheck.watch.replicas import unsaved_buffers

    sketches = sketch_all(unsaved_buffers(module).items())
    return {name.replace(WRAPPED, ""): sketch.digest for name, sketch in sketches.items()}
