"""What is known of a training without DDP, and what of its replicas is to be alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from ddpcheck.finding import Location
from ddpcheck.measures.deeds import Deed
from ddpcheck.measures.drift import Replica
from ddpcheck.measures.sketch import Sketch, are_alike

Ranks = tuple[int, ...]
Sketches = dict[str, Sketch]


class Summed(msgspec.Struct, frozen=True):
    """The ranks that sum gradients after backward, whether all that there are, and where."""

    ranks: Ranks
    is_whole: bool
    location: Location | None = None


class Unwrapped(msgspec.Struct, frozen=True):
    """What is known of a training without DDP; nothing where there is DDP.

    ``names`` are what the script calls parameters, ``constants`` those that had one value all over.
    ``parts`` are ranks that send each other tensors, or share a backward pass, as those that hold
    parts of one model do; ``spread`` are those that share a forward pass. ``placed`` are the lines at
    which DDP was made of what is trained without it now, ``ended`` is whether the script came to its
    end; ``made`` is where the optimizer was, ``shares`` whether a DistributedSampler, or accelerate,
    deals out what is trained on. ``too_soon`` are parameters whose gradients were summed before the last
    backward pass came to them.
    """

    summed: Summed | None = None
    names: dict[str, str] = {}
    constants: list[str] = []
    parts: list[Ranks] = []
    too_soon: list[str] = []
    spread: list[Ranks] = []
    placed: list[Location | None] = []
    ended: bool = False
    made: Location | None = None
    shares: bool = False

    @property
    def ranks(self) -> Ranks:
        """Return those that average their gradients."""
        return self.summed.ranks if self.summed else ()


class Told(Replica, Protocol):
    """What a rank tells of its replica: see ``checks.gradients.replicas_differ.Facts``."""

    @property
    def unit(self) -> float: ...  # noqa: D102
    @property
    def deeds(self) -> Sequence[Deed]: ...  # noqa: D102
    @property
    def unwrapped(self) -> Unwrapped: ...  # noqa: D102


@dataclass(frozen=True)
class Shared:
    """What of a rank's replica is to be alike."""

    before: Sketches
    gradients: list[Sketches]
    after: Sketches
    steps: int
    norms: Sequence[str]
    apart_by_design: bool


def own_by_design(told: Mapping[int, Told]) -> set[str]:
    """Return the parameters that differ from the start on purpose, as tables split by hand do.

    Where all gradients are summed none is; where of all that was random at first nothing is alike,
    the ranks were not seeded alike, and none is meant to differ.
    """
    names = {name for own in told.values() for name in own.before}
    unlike = {name for name in names if not are_alike([own.before for own in told.values()], name)}
    random = names - {name for own in told.values() for name in own.unwrapped.constants}
    summed = [own.unwrapped.summed for own in told.values()]
    is_whole = all(each is not None and each.is_whole for each in summed)
    return set() if is_whole or random <= unlike else unlike


def shared(told: Told, own: Collection[str]) -> Shared:
    """Return what a rank has but these parameters, which are its own."""
    return Shared(
        before=without(told.before, own),
        gradients=[without(each, own) for each in told.gradients],
        after=without(told.after, own),
        steps=told.steps,
        norms=() if own else told.norms,
        apart_by_design=told.apart_by_design,
    )


def without(sketches: Mapping[str, Sketch], names: Collection[str]) -> Sketches:
    """Return the sketches but those of these names."""
    return {name: each for name, each in sketches.items() if name not in names}
