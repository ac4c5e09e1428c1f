"""A tensor-parallel group of the mesh has ranks on several hosts.

Why it matters
    Tensor parallelism sends activations several times a layer, with nothing to hide it behind:
    between hosts it is many times slower than over the links inside one.

What to do
    Put tp last in --mesh (the last axis varies fastest, so its ranks are neighbours), and make its
    size a divisor of the ranks a host. Hosts that share one NVLink domain (NVL72) are the
    exception.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.mesh import Axis, groups_along
from ddpcheck.measures.words import listed

# What people call the axis (torchtitan: tp; Megatron and others: tensor, mp for model parallel).
NAMES = ("tp", "tensor", "tensor_parallel", "model", "mp")


class Facts(msgspec.Struct, frozen=True):
    """The mesh, and the machine that a rank is on: its name, and what tells it apart."""

    axes: tuple[Axis, ...]
    host: str
    machine: str


def probe(ctx: Context) -> Facts:
    """Return where this rank is."""
    if not any(axis.name.lower() in NAMES for axis in ctx.mesh):
        raise Skip("no --mesh with a tensor-parallel axis (tp) is given")
    return Facts(ctx.mesh, ctx.host, ctx.machine)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for the groups that are not on one host."""
    axes = facts[min(facts)].axes
    groups = [
        [rank for rank in group if rank in facts]
        for axis in axes
        if axis.name.lower() in NAMES
        for group in groups_along(axes, axis.name)
    ]
    split = [group for group in groups if len({facts[rank].machine for rank in group}) > 1]
    if not split:
        return []
    hosts = sorted({facts[rank].host for rank in split[0]})
    return [
        Finding(
            title=f"{len(split)} of {len(groups)} tensor-parallel groups are on several hosts",
            message=f"ranks {listed(split[0])} are on {listed(hosts)}",
            fix="put tp last in --mesh and in your own mesh, with a size that divides the ranks a "
            "host",
            ranks=tuple(sorted({rank for group in split for rank in group})),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )
    ]
