"""How fast collectives were, and which are slower than they were before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ddpcheck.measures.bus_bandwidth import bus_gbps

MIB = 2**20


class Speed(msgspec.Struct, frozen=True):
    """The times of one collective in one size, in seconds; ``size_bytes`` as nccl-tests counts it.

    ``quarter_s`` and ``three_quarters_s`` bound the middle half of the goes. ``wire_s`` leaves out
    what starting it from Python costs, and what looking at each go by itself does; None where that
    could not be told apart, or was not measured.
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

    @property
    def steady_s(self) -> float:
        """Return the seconds of one go of many back to back, as nccl-tests counts large ones.

        Of a small one starting it is a part; of a large one that is hidden behind the one before.
        """
        return self.wire_s if self.wire_s is not None and self.size_bytes > MIB else self.median_s

    @property
    def name(self) -> tuple[str, str, int]:
        """Return what is compared with the same of another run."""
        return self.kind, self.memory, self.size_bytes


def slowest(speeds: Mapping[int, Sequence[Speed]]) -> list[Speed]:
    """Return each collective and size as its slowest rank saw it: the others waited for that one."""
    by_name: dict[tuple[str, str, int], Speed] = {}
    for own in speeds.values():
        for each in own:
            known = by_name.get(each.name)
            if known is None or each.median_s > known.median_s:
                by_name[each.name] = each
    return list(by_name.values())


def gbps(speed: Speed, world_size: int) -> float:
    """Return its bus bandwidth in decimal GB/s."""
    return bus_gbps(speed.kind, world_size, speed.size_bytes, speed.steady_s)


def slower_than_before(
    now: Sequence[Speed], before: Sequence[Speed], least_bytes: int, bound: float
) -> Iterator[tuple[Speed, Speed]]:
    """Yield what is slower than before by more than ``bound``, a part of 1, beyond the spread.

    Where goes of one run vary by more than that, the middle halves of both must lie apart, too.
    Tiny messages are left out: they have a latency, and no bandwidth.
    """
    known = {each.name: each for each in before}
    for own in now:
        old = known.get(own.name)
        if old is None or own.size_bytes < least_bytes:
            continue
        slower = own.median_s * (1 - bound) > old.median_s
        if slower and own.quarter_s > old.three_quarters_s and own.least_s > old.least_s:
            yield own, old
