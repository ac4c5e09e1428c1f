"""The parts of a distributed checkpoint lie in different places.

Why it matters
    Each rank writes its part of a distributed checkpoint, and one of them the index of all parts.
    Where a rank wrote into another folder (its name has the time, or the rank), or to a disk of its
    own host, no place has all of it: saving raises no error, and loading finds files missing.

What to do
    Save into one folder on storage that all hosts share. Let rank 0 choose a name with a time in
    it, and the others take it over: broadcast_object_list.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location
from ddpcheck.measures.words import spans

INDEX = ".metadata"
KEPT_COUNT = 200


class Part(msgspec.Struct, frozen=True):
    """Where a rank wrote its part, and whether it finds the index there in the end."""

    path: str
    leads: bool
    location: Location | None = None
    has_index: bool = False


class Facts(msgspec.Struct, frozen=True):
    """The parts that a rank wrote, in order."""

    parts: tuple[Part, ...]


class Observer:
    """Notes each distributed checkpoint that is written."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._parts: list[Part] = []

    def on_storing(self, path: str, leads: bool, location: Location | None) -> None:
        """Note where."""
        if len(self._parts) < KEPT_COUNT:
            self._parts.append(Part(path, leads, location))

    def facts(self) -> Facts:
        """Return the parts; raises Skip where no script is watched."""
        self._ctx.require_watch()
        kept = (msgspec.structs.replace(e, has_index=_has_index(e.path)) for e in self._parts)
        return Facts(tuple(kept))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line that wrote a checkpoint whose index some ranks do not find.

    One that was moved or removed since has no index for anybody, and is not judged.
    """
    found: dict[str, Finding] = {}
    for parts in _checkpoints(facts):
        leaders = [part for part in parts.values() if part.leads]
        apart = {rank: part for rank, part in parts.items() if not part.has_index}
        if len(leaders) == 1 and leaders[0].has_index and apart:
            found.setdefault(str(leaders[0].location), _finding(leaders[0], apart))
    return list(found.values())


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many were written."""
    return f"{max(len(own.parts) for own in facts.values())} distributed checkpoints written"


def _checkpoints(facts: Mapping[int, Facts]) -> list[dict[int, Part]]:
    count = min(len(own.parts) for own in facts.values())
    return [{rank: own.parts[each] for rank, own in facts.items()} for each in range(count)]


def _has_index(path: str) -> bool:
    return (Path(path) / INDEX).exists()


def _finding(leader: Part, apart: Mapping[int, Part]) -> Finding:
    first = next(iter(apart.values()))
    elsewhere = first.path != leader.path
    where = f"into {first.path}" if elsewhere else "to a disk that has no index of it"
    return Finding(
        title="the parts of a distributed checkpoint lie in different places",
        message=f"the index is in {leader.path}; rank {spans(apart)} wrote {where}: no place has all "
        "parts, and it cannot be loaded",
        fix="let rank 0 choose the folder, and the others take its name over (broadcast_object_list)"
        if elsewhere
        else "save to storage that all hosts share",
        ranks=tuple(apart),
        confidence=Confidence.HIGH,
        location=first.location,
    )
