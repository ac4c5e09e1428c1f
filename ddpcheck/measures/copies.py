"""Copies of a parameter that go apart, because each is changed by a gradient of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

import msgspec

from ddpcheck.measures.sketch import Difference, Sketch, first_difference

Ranks = tuple[int, ...]
Sketches = Mapping[str, Sketch]
# Parts of a sum that was left out differ as much as they are: by tenths and more. Rounding is
# below 1 % even in bfloat16, whose unit is 2^-7.
GRADIENT_RELATIVE = 0.05
# Without a gradient that tells why: further than rounding that an optimizer has made larger.
PARAMETER_RELATIVE = 0.01


class Copies(msgspec.Struct, frozen=True):
    """What may be alike on these ranks, as sketches by name: before, gradients by step, after."""

    ranks: Ranks
    before: dict[str, Sketch]
    gradients: list[dict[str, Sketch]]
    after: dict[str, Sketch]


class Drift(NamedTuple):
    """The first parameter that went apart; ``step`` is the one whose gradients did it, if seen.

    Or it was apart ``from_start``.
    """

    difference: Difference
    step: int | None
    from_start: bool = False


class Told(Protocol):
    """What a rank tells: its copies, and with which ranks it shares a backward pass, or a mesh.

    ``names`` has what the script calls a parameter, as far as is known.
    """

    @property
    def copies(self) -> list[Copies]: ...  # noqa: D102
    @property
    def joint(self) -> list[Ranks]: ...  # noqa: D102
    @property
    def meshes(self) -> list[Ranks]: ...  # noqa: D102
    @property
    def names(self) -> dict[str, str]: ...  # noqa: D102


def drifts_of_declared(told: Mapping[int, Told]) -> dict[Ranks, Drift]:
    """Return how parameters went apart that are said to be alike on some ranks, by these ranks."""
    kept = sorted({each.ranks for own in told.values() for each in own.copies if each.ranks})
    found = {ranks: _drift_of_declared(_held(told, ranks, ranks)) for ranks in kept}
    return {ranks: each for ranks, each in found.items() if each is not None}


def drifts_of_plain(told: Mapping[int, Told]) -> dict[Ranks, Drift]:
    """Return how parameters went apart that were alike at first, on ranks that work together."""
    meshes = {ranks for own in told.values() for ranks in own.meshes}
    joint = {ranks for own in told.values() for ranks in own.joint}
    names = next((own.names for own in told.values()), {})
    found = {
        ranks: _drift_of_plain(_held(told, ranks, ()), names, is_split=ranks in meshes)
        for ranks in sorted(meshes | joint)
    }
    return {ranks: each for ranks, each in found.items() if each is not None}


def _held(told: Mapping[int, Told], ranks: Ranks, under: Ranks) -> dict[int, Copies]:
    """Return what each of these ranks keeps under a name; nothing unless all of them do."""
    held = {
        rank: each
        for rank in ranks
        if rank in told and (under or ranks in (*told[rank].joint, *told[rank].meshes))
        for each in told[rank].copies
        if each.ranks == under
    }
    return held if len(held) == len(ranks) else {}


def _drift_of_declared(held: Mapping[int, Copies]) -> Drift | None:
    if not held:
        return None
    before = {rank: each.before for rank, each in held.items()}
    apart = first_difference(before, beyond=PARAMETER_RELATIVE)
    if apart:
        return Drift(apart, None, from_start=True)
    return _drift(held, list(next(iter(before.values()))))


def _drift_of_plain(
    held: Mapping[int, Copies], names: Mapping[str, str], *, is_split: bool
) -> Drift | None:
    """Return the drift of what was alike, and not zero.

    Without anything that is split between these ranks, all of them may go their own ways; and
    only a gradient can tell a copy from what is a rank's own later on.
    """
    before = {rank: each.before for rank, each in held.items()}
    if not held or not (is_split or first_difference(before)):
        return None
    found = _drift(held, _alike(before, names))
    return found if found and found.step is not None else None


def _alike(before: Mapping[int, Sketches], names: Mapping[str, str]) -> list[str]:
    """Return the names of what is equal bit by bit: zeros are of all kinds of parameters.

    The bias of a matrix that is split may be split as well, and be alike by its seed.
    """
    first, *others = before.values()
    equal = {
        name: all(name in each and each[name].digest == own.digest for each in others)
        for name, own in first.items()
    }
    module = {name: names.get(name, name).rpartition(".")[0] for name in equal}
    split = {module[name] for name, is_equal in equal.items() if not is_equal} - {""}
    return [n for n, own in first.items() if own.norm and equal[n] and module[n] not in split]


def _drift(held: Mapping[int, Copies], names: Collection[str]) -> Drift | None:
    after = {rank: each.after for rank, each in held.items()}
    apart = [name for name in names if first_difference(_only([name], after)) is not None]
    for step in range(min(len(each.gradients) for each in held.values())):
        seen = _only(apart, {rank: each.gradients[step] for rank, each in held.items()})
        cause = first_difference(seen, beyond=GRADIENT_RELATIVE)
        if cause:
            return Drift(cause, step)
    far = first_difference(_only(apart, after), beyond=PARAMETER_RELATIVE)
    return Drift(far, None) if far else None


def _only(names: Collection[str], told: Mapping[int, Sketches]) -> dict[int, Sketches]:
    kept = set(names)
    return {
        rank: {name: each for name, each in own.items() if name in kept}
        for rank, own in told.items()
    }
