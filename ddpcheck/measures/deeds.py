"""What a script did to its wrapped model that makes replicas differ, and which of it did so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from ddpcheck.finding import Location
from ddpcheck.measures.words import spans


class Kind(StrEnum):
    """What was done, in the words of a message after "rank 0"."""

    BYPASSED = "ran no forward through the wrapped model"
    UNSYNCED = "ran the last forward before its step inside of no_sync()"
    FREED = "let parameters get gradients that got none when the model was wrapped"
    LOADED = "loaded a state into the model after it was wrapped"


FIXES = {
    Kind.BYPASSED: "call the wrapped model before backward, and never model.module or the bare model",
    Kind.UNSYNCED: "run the last forward and backward before each optimizer step outside of no_sync()",
    Kind.FREED: "set requires_grad before wrapping, or wrap the model anew after it",
    Kind.LOADED: "load the checkpoint on every rank, before the model is wrapped",
}


UNKNOWN_FIX = (
    "see that every forward runs through the wrapped model, that nothing changes "
    "requires_grad or the parameters after wrapping, and that all ranks load the checkpoint"
)


class Deed(msgspec.Struct, frozen=True):
    """One of them on one rank, in a training step that counts from 0; ``what`` tells more of it."""

    kind: Kind
    step: int
    what: str = ""
    location: Location | None = None


class Cause(msgspec.Struct, frozen=True):
    """What explains a difference, and the ranks that did it."""

    words: str
    ranks: tuple[int, ...]
    location: Location | None
    fix: str


def cause_of(deeds: Mapping[int, Sequence[Deed]], step: int) -> Cause | None:
    """Return what makes replicas differ from a step on; -1 stands for before the first.

    A forward counts in its own step alone. A state that all ranks have loaded is no cause.
    """
    for kind in Kind if step >= 0 else (Kind.LOADED,):
        done = {rank: _latest(own, kind, step) for rank, own in deeds.items()}
        did = {rank: deed for rank, deed in done.items() if deed is not None}
        if did and not (kind is Kind.LOADED and len(did) == len(deeds)):
            return _cause(kind, did, tuple(sorted(deeds)))
    return None


def _latest(deeds: Sequence[Deed], kind: Kind, step: int) -> Deed | None:
    until = max(step, 0)
    since = until if kind in (Kind.BYPASSED, Kind.UNSYNCED) else 0
    fit = [each for each in deeds if each.kind is kind and since <= each.step <= until]
    return fit[-1] if fit else None


def _cause(kind: Kind, did: Mapping[int, Deed], ranks: tuple[int, ...]) -> Cause:
    first = did[min(did)]
    where = f" at {first.location}" if first.location else ""
    who = f"rank {spans(did)}"
    others = f", and rank {spans(rank for rank in ranks if rank not in did)} did not"
    words = f"{who} {kind}{f': {first.what}' if first.what else ''}{where}"
    if kind is Kind.LOADED:
        # Neither is right by itself: those who did and those who did not are apart.
        return Cause(words + others, ranks, first.location, FIXES[kind])
    words += others if len(did) < len(ranks) else ""
    return Cause(words, tuple(sorted(did)), first.location, FIXES[kind])
