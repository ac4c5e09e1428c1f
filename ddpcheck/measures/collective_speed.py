"""How fast collectives were, and which are slower than they were before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from ddpcheck.measures.bus_bandwidth import bus_gbps
from ddpcheck.measures.spread import Spread, is_slower

MIB = 2**20
# Kind, memory and bytes of a collective.
Name: TypeAlias = tuple[str, str, int]


class Speed(msgspec.Struct, frozen=True):
    """The times of one collective in one size, in seconds; ``size_bytes`` as nccl-tests counts it.

    ``quarter_s`` and ``three_quarters_s`` bound the middle half of the goes. ``wire_s`` leaves out
    what starting it from Python costs, and what looking at each go by itself does; None where that
    could not be told apart, or was not measured. ``core_waits`` is which part of the time may
    have been lost by waiting for a core.
    """

    kind: str
    memory: str
    size_bytes: int
    goes: int
    least_s: float
    quarter_s: float
    median_s: float
    three_quarters_s: float
    p99_s: float
    wire_s: float | None = None
    core_waits: float = 0.0

    @property
    def steady_s(self) -> float:
        """Return the seconds of one go of many back to back, as nccl-tests counts large ones.

        Of a small one starting it is a part; of a large one that is hidden behind the one before.
        """
        return self.wire_s if self.wire_s is not None and self.size_bytes > MIB else self.median_s

    @property
    def spread(self) -> Spread:
        """Return how much its goes vary."""
        middle = (self.quarter_s, self.median_s, self.three_quarters_s)
        return Spread(self.least_s, *middle, self.core_waits)

    @property
    def name(self) -> Name:
        """Return what is compared with the same of another run."""
        return self.kind, self.memory, self.size_bytes


def slowest(speeds: Mapping[int, Sequence[Speed]]) -> list[Speed]:
    """Return each collective and size as its slowest rank saw it: the others waited for that one.

    What made it slow may be what another one waited for, so the longest waits for a core count.
    """
    waits: dict[Name, float] = {}
    for each in (each for own in speeds.values() for each in own if each.core_waits):
        waits[each.name] = max(each.core_waits, waits.get(each.name, 0.0))
    return [
        replace(each, core_waits=waits.get(name, 0.0))
        for name, (_, each) in _slowest_by_name(speeds).items()
    ]


def slowest_ranks(speeds: Mapping[int, Sequence[Speed]]) -> set[int]:
    """Return the ranks that were the slowest in some collective and size."""
    return {rank for rank, _ in _slowest_by_name(speeds).values()}


def _slowest_by_name(speeds: Mapping[int, Sequence[Speed]]) -> dict[Name, tuple[int, Speed]]:
    found: dict[Name, tuple[int, Speed]] = {}
    for rank, own in speeds.items():
        for each in own:
            name = each.name
            known = found.get(name)
            if known is None or each.median_s > known[1].median_s:
                found[name] = (rank, each)
    return found


def gbps(speed: Speed, world_size: int) -> float:
    """Return its bus bandwidth in decimal GB/s."""
    return bus_gbps(speed.kind, world_size, speed.size_bytes, speed.steady_s)


def slower_than_before(
    now: Sequence[Speed], before: Sequence[Speed], least_bytes: int, bound: float
) -> Iterator[tuple[Speed, Speed]]:
    """Yield what is slower than before by more than ``bound``, a part of 1, beyond the spread.

    Tiny messages are left out: they have a latency, and no bandwidth.
    """
    known = {each.name: each for each in before}
    for own in now:
        old = known.get(own.name)
        if old is None or own.size_bytes < least_bytes:
            continue
        if is_slower(own.spread, old.spread, bound):
            yield own, old
