"""What a script did to its wrapped model that makes replicas differ, and which of it did so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from ddpcheck.finding import Location
from ddpcheck.measures.drift import OF_GRADIENTS, Drift
from ddpcheck.measures.peers import grouped, outside_majority
from ddpcheck.measures.words import spans


class Kind(StrEnum):
    """What was done, in the words of a message after "rank 0"."""

    BYPASSED = "ran no forward through the wrapped model"
    UNSYNCED = "ran the last forward before its step inside of no_sync()"
    ADDED = "added parameters to the model after it was wrapped"
    FREED = "let parameters get gradients that got none when the model was wrapped"
    LOADED = "loaded a state into the model after it was wrapped"
    RESUMED = "loaded a state into the optimizer"
    SET = "changed the settings of the optimizer"  # in words of its own: see ``_unlike_settings``


FIXES = {
    Kind.BYPASSED: "call the wrapped model before backward, and never model.module or the bare model",
    Kind.UNSYNCED: "run the last forward and backward before each optimizer step outside of no_sync()",
    Kind.ADDED: "add them before the model is wrapped, or wrap it anew: DDP hands out, and averages, what "
    "it was made of",
    Kind.FREED: "set requires_grad before wrapping, or wrap the model anew after it",
    Kind.LOADED: "load the checkpoint on every rank, before the model is wrapped",
    Kind.RESUMED: "load the optimizer's state on every rank",
    Kind.SET: "let all ranks step with the same settings: a scheduler that goes by a loss or a metric "
    "needs the average over the ranks, not each rank's own",
}


STATES = (Kind.LOADED, Kind.RESUMED)
TOLD_VALUES = 4

UNKNOWN_FIX = (
    "see that every forward runs through the wrapped model, that nothing changes "
    "requires_grad or the parameters after wrapping, and that all ranks load the checkpoint"
)


class Deed(msgspec.Struct, frozen=True):
    """One of them on one rank, in a training step that counts from 0; ``what`` tells more of it.

    Of a setting ``what`` is its name, ``value`` what it is from this step on, and ``location`` the
    scheduler's that set it; or the optimizer's, which ``was_made`` there, where the script did.
    """

    kind: Kind
    step: int
    what: str = ""
    location: Location | None = None
    value: str = ""
    was_made: bool = False


class Cause(msgspec.Struct, frozen=True):
    """What explains a difference, and the ranks that did it."""

    words: str
    ranks: tuple[int, ...]
    location: Location | None
    fix: str


class Told(Protocol):
    """What a rank tells of what it did: see ``checks.gradients.replicas_differ.Facts``."""

    @property
    def deeds(self) -> Sequence[Deed]: ...  # noqa: D102


def cause_of_drift(told: Mapping[int, Told], drift: Drift) -> Cause | None:
    """Return what explains that replicas differ since this moment."""
    deeds = {rank: own.deeds for rank, own in told.items()}
    return cause_of(deeds, drift.step, of_gradients=drift.what == OF_GRADIENTS)


def cause_of(
    deeds: Mapping[int, Sequence[Deed]], step: int, *, of_gradients: bool = False
) -> Cause | None:
    """Return what makes replicas differ from a step on; -1 stands for before the first.

    A forward counts in its own step alone. A state that all ranks have loaded is no cause, and
    settings of the optimizer are none of gradients that differ before its step.
    """
    unlike = None if of_gradients or step < 0 else _unlike_settings(deeds, step)
    return unlike or _deed_of_some(deeds, step)


def _deed_of_some(deeds: Mapping[int, Sequence[Deed]], step: int) -> Cause | None:
    for kind in Kind if step >= 0 else (Kind.ADDED, Kind.LOADED):
        done = {rank: _latest(own, kind, step) for rank, own in deeds.items()}
        did = {rank: deed for rank, deed in done.items() if deed is not None}
        is_alike = kind in STATES and len(did) == len(deeds)
        if did and kind is not Kind.SET and not is_alike:
            return _cause(kind, did, tuple(sorted(deeds)))
    return None


def _unlike_settings(deeds: Mapping[int, Sequence[Deed]], step: int) -> Cause | None:
    """Return the first setting that ranks had different values of when they made a step."""
    names = dict.fromkeys(d.what for own in deeds.values() for d in own if d.kind is Kind.SET)
    for name in names:
        own = {
            rank: next((d for d in reversed(told) if _sets(d, name) and d.step <= step), None)
            for rank, told in deeds.items()
        }
        known = {rank: deed for rank, deed in own.items() if deed is not None}
        if len(known) == len(deeds) and len({deed.value for deed in known.values()}) > 1:
            return _cause_of_setting(name, known)
    return None


def _sets(deed: Deed, name: str) -> bool:
    return deed.kind is Kind.SET and deed.what == name


def _cause_of_setting(name: str, known: Mapping[int, Deed]) -> Cause:
    values = {rank: deed.value for rank, deed in known.items()}
    told = [f"{each} on rank {spans(own)}" for each, own in grouped(values).items()][:TOLD_VALUES]
    last = max(known.values(), key=lambda deed: deed.step)
    how = "of the optimizer made at" if last.was_made else "set by"
    where = f", {how} {last.location}" if last.location else ""
    words = f"from step {last.step} on the optimizer's {name} is {', '.join(told)}{where}"
    return Cause(words, outside_majority(values), last.location, FIXES[Kind.SET])


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
    if kind in STATES:
        # Neither is right by itself: those who did and those who did not are apart.
        return Cause(words + others, ranks, first.location, FIXES[kind])
    words += others if len(did) < len(ranks) else ""
    return Cause(words, tuple(sorted(did)), first.location, FIXES[kind])
