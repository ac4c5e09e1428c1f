"""Some ranks loaded weights into a model that was then sharded, and others did not.

Why it matters
    fully_shard takes each rank's part from that rank's own copy: nothing is broadcast. Where rank 0
    alone has loaded the pretrained weights, the model is rank 0's in a part and newly made in all
    others. It trains, from a start that is worth little.

What to do
    Load on every rank before fully_shard, or after it with set_model_state_dict and
    StateDictOptions(full_state_dict=True, broadcast_from_rank0=True).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from torch import nn

    from ddpcheck.watch.batches import Keepsake

# A model of more layers is looked at as far as that.
KEPT_MODULES = 64


class Facts(msgspec.Struct, frozen=True):
    """A digest of each module's parameters as it was sharded, and whether they had been loaded.

    ``reloads`` is whether weights came to the sharded model later, and ``location`` where the first
    ones came from.
    """

    modules: tuple[tuple[str, bool], ...]
    reloads: bool = False
    location: Location | None = None


class Observer:
    """Notes what is loaded, and what modules hold when they are sharded."""

    def __init__(self, ctx: Context) -> None:
        from torch.utils.weak import WeakIdKeyDictionary

        self._ctx = ctx
        self._loaded: Any = WeakIdKeyDictionary()
        self._modules: list[tuple[Keepsake, bool]] = []
        self._reloads = False
        self._location: Location | None = None

    def on_loaded(self, module: nn.Module, *told: Any) -> None:
        """Remember the parameters; those of a sharded model are its last word."""
        parameters = list(module.parameters())
        self._reloads = self._reloads or any(hasattr(each, "placements") for each in parameters)
        self._loaded.update(dict.fromkeys(parameters, True))
        self._location = self._location or told[-1]

    def on_sharding(self, module: nn.Module, _location: Location | None) -> None:
        """Keep the beginnings of what is about to be sharded."""
        from ddpcheck.watch.batches import Keepsake

        whole = [each for each in module.parameters() if not hasattr(each, "placements")]
        if whole and len(self._modules) < KEPT_MODULES:
            was_loaded = any(each in self._loaded for each in whole)
            self._modules.append((Keepsake([each.detach() for each in whole]), was_loaded))

    def facts(self) -> Facts:
        """Return the digests; raises Skip where nothing was sharded."""
        self._ctx.require_watch()
        if not self._modules:
            raise Skip("no model was sharded with fully_shard")
        modules = tuple((kept.digest(), was_loaded) for kept, was_loaded in self._modules)
        return Facts(modules, self._reloads, self._location)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding where modules differ between ranks that loaded them and ranks that did not."""
    if any(own.reloads for own in facts.values()):
        return []
    for abreast in zip(*(own.modules for own in facts.values()), strict=False):
        loaded = [rank for rank, (_, was) in zip(facts, abreast, strict=True) if was]
        digests = {digest for digest, _ in abreast}
        if 0 < len(loaded) < len(facts) and len(digests) > 1 and "" not in digests:
            return [_finding(facts, sorted(loaded))]
    return []


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many modules were looked at."""
    return f"{len(next(iter(facts.values())).modules)} modules looked at as they were sharded"


def _finding(facts: Mapping[int, Facts], loaded: list[int]) -> Finding:
    others = sorted(set(facts) - set(loaded))
    return Finding(
        title="a model was sharded that only some ranks had loaded",
        message=f"rank {spans(loaded)} loaded weights before fully_shard, rank {spans(others)} did "
        "not: of the sharded model their parts are as they were made",
        fix="load on every rank before fully_shard, or after it with set_model_state_dict and "
        "StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)",
        ranks=tuple(others),
        severity=Severity.ERROR,
        confidence=Confidence.HIGH,
        location=facts[loaded[0]].location,
    )
