"""Every rank has the whole model in the host's memory before it is sharded.

Why it matters
    fully_shard takes each rank's part of parameters that are there as a whole. When all ranks make
    the model on the CPU, or load a whole checkpoint, a host holds as many copies as it has ranks
    before there is a shard: a model that is small for the GPUs together is killed for memory
    (signal 9) at start.

What to do
    Make the model on the meta device (with torch.device("meta"):), shard it, then to_empty() and
    load a distributed checkpoint; or let rank 0 alone have the weights, and hand them out with
    set_model_state_dict(..., StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.machine.memory import tightest_memory
from ddpcheck.machine.places import shared_place
from ddpcheck.measures.hosts import by_place, named
from ddpcheck.measures.words import size

# A checkpoint that is loaded into the model doubles it: then nothing would be left.
FULL_RATIO = 0.5
# Below that it is a matter of taste.
LARGE_RATIO = 0.1


class Facts(msgspec.Struct, frozen=True):
    """The bytes of parameters that this rank had on the CPU as a whole, and its place's memory."""

    host: str
    place: str
    limited_by: str
    limit_bytes: int
    model_bytes: int
    location: Location | None = None


class Observer:
    """Adds up the parameters of what is about to be sharded."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._model_bytes = 0
        self._was_called = False
        self._location: Location | None = None

    def on_sharding(self, module: Any, location: Location | None) -> None:
        """Add those that are whole still: of a model whose blocks were sharded before, the rest."""
        from ddpcheck.watch.replicas import whole_bytes

        modules = module if isinstance(module, list) else [module]
        self._was_called = True
        self._model_bytes += sum(map(whole_bytes, modules))
        self._location = location  # the whole model comes last

    def facts(self) -> Facts:
        """Return the sum; raises Skip where nothing was sharded."""
        self._ctx.require_watch()
        told = tightest_memory()
        if not self._was_called or told is None:
            raise Skip("no model was sharded with fully_shard")
        limited_by, room = told
        place = shared_place(self._ctx.host, limited_by, room.group)
        return Facts(
            self._ctx.host, place, limited_by, room.limit, self._model_bytes, self._location
        )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each host with several copies that take a large part of its memory."""
    having = {rank: own for rank, own in facts.items() if own.model_bytes}
    hosts = [ranks for ranks in by_place(having) if len(ranks) > 1]
    return [_finding(ranks) for ranks in hosts if _part(ranks) >= LARGE_RATIO]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the largest copy."""
    largest = max(own.model_bytes for own in facts.values())
    return f"{size(largest)} of a model on a rank's CPU before it was sharded"


def _part(ranks: Mapping[int, Facts]) -> float:
    limit_bytes = min(own.limit_bytes for own in ranks.values())
    return sum(own.model_bytes for own in ranks.values()) / limit_bytes


def _finding(ranks: Mapping[int, Facts]) -> Finding:
    own = ranks[min(ranks)]
    return Finding(
        title=f"{len(ranks)} ranks of a host have the whole model before it is sharded",
        message=f"{named(ranks)}: {len(ranks)} copies of {size(own.model_bytes)} on the CPU, "
        f"{_part(ranks):.0%} of the {size(own.limit_bytes)} that {own.limited_by} has",
        fix='make the model on the meta device (with torch.device("meta"):), shard, to_empty(), then '
        "load; or hand out rank 0's weights (broadcast_from_rank0=True)",
        ranks=tuple(ranks),
        severity=Severity.WARNING if _part(ranks) >= FULL_RATIO else Severity.INFO,
        confidence=Confidence.MEDIUM,
        location=own.location,
    )
