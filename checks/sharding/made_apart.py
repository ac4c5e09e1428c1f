"""Ranks made models of their own, and FSDP shards them as if they were one.

Why it matters
    fully_shard takes each rank's part from that rank's own copy: nothing is broadcast. With a seed
    of its own on each rank before the model is made, the sharded model is a patchwork: a matrix has
    rows of several initializations, which no single process would have begun with, nor can repeat.

What to do
    Seed all ranks alike until the model is made, and apart after it where that is wanted; or make
    it on the meta device and initialize it after fully_shard, or load one checkpoint on all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import counted, spans

if TYPE_CHECKING:
    from torch import nn

    from ddpcheck.watch.sharded_whole import ShardedWhole

Ranks = tuple[int, ...]


class Sharded(msgspec.Struct, frozen=True):
    """A module as it was sharded: a digest of its parameters, among which ranks, and where.

    The digest is empty where it tells nothing, or the parameters were made anew, or loaded, later.
    """

    digest: str
    ranks: Ranks
    location: Location | None = None


class Facts(msgspec.Struct, frozen=True):
    """The modules in the order in which they were sharded; ``replaced`` once they were loaded."""

    modules: tuple[Sharded, ...]
    replaced: bool = False


class Observer:
    """Keeps what modules hold when they are sharded, until the training begins."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._kept: list[ShardedWhole] = []
        self._before: ShardedWhole | None = None
        self._replaced = self._begun = False

    def on_loaded(self, *_told: Any) -> None:
        """Note that a model was given other values: sharding/loaded-on-some-ranks looks at that."""
        self._replaced = self._replaced or not self._begun

    on_restored = on_loaded

    def on_sharding(self, module: nn.Module, location: Location | None) -> None:
        """Keep how the module's parameters begin."""
        from ddpcheck.watch.sharded_whole import KEPT_MODULES, ShardedWhole, not_sharded_yet

        whole = not_sharded_yet(module)
        if whole and len(self._kept) < KEPT_MODULES and not self._begun:
            self._before = ShardedWhole(module, whole, location)

    def on_sharded(self, module: nn.Module, mesh: Any, _location: Location | None) -> None:
        """Note among which ranks it was sharded."""
        before, self._before = self._before, None
        if before is not None and before.module() is module:
            every = range(self._ctx.world_size)
            before.ranks = tuple(every if mesh is None else sorted(mesh.mesh.flatten().tolist()))
            self._kept.append(before)

    def on_loss(self, _step: int, _loss: object) -> None:
        """Look whether they still hold that, as the training begins."""
        if not self._begun:
            self._begun = True
            for each in self._kept:
                each.look_again()

    def facts(self) -> Facts:
        """Return the digests; raises Skip where nothing was sharded and trained."""
        self._ctx.require_watch()
        if not self._kept or not self._begun:
            raise Skip("no model was sharded with fully_shard, and trained")
        told = (Sharded(each.digest(), each.ranks, each.location) for each in self._kept)
        return Facts(tuple(told), self._replaced)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks whose modules differ as they were sharded among them."""
    if any(own.replaced for own in facts.values()):
        return []
    for abreast in zip(*(own.modules for own in facts.values()), strict=False):
        modules = dict(zip(facts, abreast, strict=True))
        for ranks, members in grouped({rank: own.ranks for rank, own in modules.items()}).items():
            digests = {modules[rank].digest for rank in members}
            if len(members) == len(ranks) > 1 and len(digests) > 1 and "" not in digests:
                return [_finding(ranks, modules[ranks[0]].location, len(facts[ranks[0]].modules))]
    return []


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many modules were looked at."""
    return f"{counted(len(next(iter(facts.values())).modules), 'module')} compared as they were sharded"


def _finding(ranks: Ranks, location: Location | None, count: int) -> Finding:
    return Finding(
        title="each rank made another model, of which fully_shard took a part",
        message=f"the parameters differ between ranks {spans(ranks)} as they are sharded, of "
        f"{counted(count, 'module')} looked at, and nothing was loaded after it",
        fix="seed all ranks alike until the model is made, or initialize it after fully_shard",
        ranks=ranks,
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        location=location,
    )
