"""Ranks give the model the same inputs, which no DataLoader has made.

Why it matters
    A script that reads its batches by itself, from an array of tokens, say, draws the places to
    read at. Where all ranks draw with one seed, all train on the same data: the job costs as much
    as many GPUs and trains like one, and nothing says so.

What to do
    Let the rank be a part of the seed that batches are drawn with, after the model is made, or of
    the place that a rank begins to read at. Batches that are made up to try a model may be alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import spans

Ranks = tuple[int, ...]
# One input may be the same on purpose: to see whether a model can learn it.
LEAST_INPUTS_COUNT = 3


class Facts(msgspec.Struct, frozen=True):
    """Digests of the first inputs of the model, and the first losses, as the script computed them.

    ``group`` are the ranks among which DDP or FSDP averages gradients; of one that FSDP shards, ranks
    may ``work_together`` on one batch. ``location`` is where the script calls the model. Inputs that
    ``look_drawn`` may be made up.
    """

    inputs: tuple[str, ...]
    group: Ranks
    losses: tuple[float, ...] = ()
    work_together: bool = False
    location: Location | None = None
    look_drawn: bool = False


class Observer:
    """Keeps the beginnings of what goes into the model, and the losses."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.averaging import Averaging
        from ddpcheck.watch.batches import GivenAny, TrainedOn

        self._ctx = ctx
        self.parts: tuple[Any, ...] = (Averaging(), GivenAny(), TrainedOn()) if ctx.watches else ()

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where a DataLoader gives the batches, or nothing tells."""
        self._ctx.require_watch()
        averaging, given, trained_on = self.parts
        inputs = given.close()
        if any(trained_on.digests()):
            raise Skip("a DataLoader gives the batches: data/same-batches compares them")
        if not averaging.ranks or not any(inputs):
            raise Skip("no inputs of a model in DDP, or sharded, were seen that tell anything")
        losses = averaging.read_losses(of_ddp=True)
        told = (inputs, averaging.ranks, losses, averaging.work_together, given.location)
        return Facts(*told, given.look_drawn())


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each group whose ranks all come from the same inputs to the same losses."""
    groups = grouped({rank: own.group for rank, own in facts.items()})
    alike = {group: [facts[rank] for rank in ranks] for group, ranks in groups.items()}
    return [_finding(group, own) for group, own in alike.items() if _are_alike(group, own)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many inputs were compared."""
    count = min(len(own.inputs) for own in facts.values())
    return f"the first {count} inputs of the model compared on {len(facts)} ranks"


def _are_alike(group: Ranks, own: list[Facts]) -> bool:
    count = min(min(len(each.inputs), len(each.losses)) for each in own)
    if len(own) < len(group) or len(own) == 1 or any(each.work_together for each in own):
        return False
    told = {(each.inputs[:count], each.losses[:count]) for each in own}
    inputs, losses = next(iter(told))
    least = min(len(set(inputs) - {""}), len(set(losses)))
    return len(told) == 1 and least >= LEAST_INPUTS_COUNT


def _finding(group: Ranks, own: list[Facts]) -> Finding:
    look_drawn = all(each.look_drawn for each in own)
    return Finding(
        title=f"{len(own)} ranks give the model the same inputs",
        message=f"the first {len(own[0].inputs)} inputs are equal bit by bit on ranks {spans(group)}, among "
        "which gradients are averaged, and so are the losses; no DataLoader gives them"
        + (", and they look drawn: made up to try the model, maybe" if look_drawn else ""),
        fix="let the rank be a part of the seed that batches are drawn with, or of the place that each "
        "rank reads them from",
        ranks=group,
        severity=Severity.INFO if look_drawn else Severity.WARNING,
        confidence=Confidence.LOW if look_drawn else Confidence.MEDIUM,
        location=own[0].location,
    )
