"""The device mesh needs another number of ranks than there are.

Why it matters
    A mesh such as dp=2,tp=4 divides the ranks among its axes: their product is the number of
    ranks. init_device_mesh raises when it is not, after all ranks have been started.

What to do
    Choose sizes whose product is the number of ranks (hosts times ranks a host), or start as many
    ranks as the mesh has places.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding
from ddpcheck.measures.mesh import Axis, factorings
from ddpcheck.measures.words import listed


class Facts(msgspec.Struct, frozen=True):
    """The mesh that this rank was asked for, and the number of ranks."""

    axes: tuple[Axis, ...]
    world_size: int


def probe(ctx: Context) -> Facts:
    """Return what was asked for."""
    if not ctx.mesh:
        raise Skip("no --mesh is given")
    return Facts(ctx.mesh, ctx.world_size)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for a product that is not the number of ranks, and for unlike meshes."""
    first = facts[min(facts)]
    others = tuple(rank for rank in sorted(facts) if facts[rank].axes != first.axes)
    if others:
        return [_unlike(others, facts[others[0]].axes, first.axes)]
    places = prod(axis.size for axis in first.axes)
    return [] if places == first.world_size else [_unfit(facts, first, places)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the mesh, and how many places it has."""
    axes = next(iter(facts.values())).axes
    return f"{_text(axes)} has {prod(axis.size for axis in axes)} places for {len(facts)} ranks"


def _unfit(facts: Mapping[int, Facts], asked: Facts, places: int) -> Finding:
    names = [axis.name for axis in asked.axes]
    fitting = [
        _text([Axis(*pair) for pair in zip(names, sizes, strict=True)])
        for sizes in factorings(asked.world_size, len(names))
    ]
    return Finding(
        title=f"the mesh has {places} places for {asked.world_size} ranks",
        message=f"{_text(asked.axes)} makes {places}, and {asked.world_size} ranks came",
        fix=f"start {places} ranks, or choose from: {listed(fitting, '; ')}",
        ranks=tuple(sorted(facts)),
        evidence={"fitting": fitting[:64]},
    )


def _unlike(ranks: tuple[int, ...], own: tuple[Axis, ...], others: tuple[Axis, ...]) -> Finding:
    return Finding(
        title="ranks are asked for different meshes",
        message=f"rank {ranks[0]}: {_text(own)}, others: {_text(others)}",
        fix="give all ranks the same --mesh (and the same DDPCHECK_MESH)",
        ranks=ranks,
    )


def _text(axes: tuple[Axis, ...] | list[Axis]) -> str:
    return ",".join(f"{axis.name}={axis.size}" for axis in axes) or "no mesh"
