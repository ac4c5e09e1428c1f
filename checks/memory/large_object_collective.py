"""A collective of objects is given large ones.

Why it matters
    all_gather_object pickles what each rank has, and unpickles the objects of all ranks on every
    rank: beside the objects it needs memory for twice their number times the largest of them, in
    one process. Time and memory grow with the number of ranks, until a rank is killed or the
    others time out.

What to do
    Send tensors as tensors (all_gather_into_tensor, gather, broadcast), reduce before gathering
    (counts instead of predictions), or let each rank write a file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.machine.memory import tightest_memory
from ddpcheck.machine.places import shared_place
from ddpcheck.measures.hosts import by_place
from ddpcheck.measures.words import size

KEPT_COUNT = 64
# Measured with torch 2.13 on two gloo ranks: all_gather_object took 0.4 to 0.7 s of a core for that,
# all_gather_into_tensor 0.15 s; and each further rank adds its share.
LARGE_BYTES = 32 * 2**20
# Of an object whose larger part is tensors or arrays, that part needs no pickling.
RAW_RATIO = 0.5
# Training needs the rest: a tenth of the memory is more than such a call is expected to take.
MEMORY_RATIO = 0.1
TO_ALL = ("all_gather_object",)
TO_ONE = ("gather_object",)


class Call(msgspec.Struct, frozen=True):
    """The largest object of a line: its pickled size, and how much of it is tensors and arrays.

    ``ranks`` is the number of those in the group, ``count`` how often the line had a large one.
    """

    operation: str
    location: Location | None
    size_bytes: int
    raw_bytes: int
    ranks: int
    count: int = 1


class Facts(msgspec.Struct, frozen=True):
    """A rank's large objects, and the memory that it shares with the ranks of its place."""

    host: str
    place: str
    limit_bytes: int
    calls: tuple[Call, ...]


class Observer:
    """Notes what is pickled for collectives."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._calls: dict[tuple[str, str], Call] = {}

    def on_pickled(
        self, operation: str, value: object, size_bytes: int, ranks: int, location: Location | None
    ) -> None:
        """Note it, if it is large; only such a one is looked into."""
        key = (operation, str(location))
        if size_bytes < LARGE_BYTES or (key not in self._calls and len(self._calls) == KEPT_COUNT):
            return

        from ddpcheck.watch.objects import raw_bytes

        before = self._calls.get(key)
        count = before.count + 1 if before is not None else 1
        if before is None or before.size_bytes < size_bytes:
            raw = min(raw_bytes(value), size_bytes)
            before = Call(operation, location, size_bytes, raw, ranks)
        self._calls[key] = msgspec.structs.replace(before, count=count)

    def facts(self) -> Facts:
        """Return them; raises Skip where no script is watched."""
        self._ctx.require_watch()
        limited_by, room = tightest_memory() or ("", None)
        place = shared_place(self._ctx.host, limited_by, room.group if room else 0)
        limit_bytes = room.limit if room else 0
        return Facts(self._ctx.host, place, limit_bytes, tuple(self._calls.values()))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line with large objects.

    It is a warning where they are mostly tensors or arrays that are gathered, which is done without
    pickling, or take a large part of a host's memory; else they may be what the script needs.
    """
    found: dict[tuple[str, Location | None], dict[int, Call]] = {}
    for rank, own in sorted(facts.items()):
        for call in own.calls:
            found.setdefault((call.operation, call.location), {})[rank] = call
    return [_finding(calls, facts) for calls in found.values()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many lines had large objects."""
    count = len({(c.operation, c.location) for own in facts.values() for c in own.calls})
    return f"{count} lines with collectives of objects of {size(LARGE_BYTES)} or more"


def _finding(calls: Mapping[int, Call], facts: Mapping[int, Facts]) -> Finding:
    call = max(calls.values(), key=lambda each: each.size_bytes)
    host = max(by_place(facts), key=lambda ranks: _part(call, ranks))
    gathers_raw = call.operation in (*TO_ALL, *TO_ONE) and (
        call.raw_bytes >= RAW_RATIO * call.size_bytes
    )
    return Finding(
        title=f"{call.operation} is given objects of {size(call.size_bytes)}",
        message=f"{size(call.size_bytes)} pickled on a rank, {size(call.raw_bytes)} of it tensors or "
        f"arrays, for {call.ranks} ranks, {call.count} times: {size(_taken(call, len(host)))} beside "
        f"the objects themselves on a host, {_part(call, host):.1%} of its memory",
        fix="send tensors as tensors (all_gather_into_tensor, gather, broadcast), reduce before you "
        "gather, or let each rank write a file",
        ranks=tuple(calls),
        severity=Severity.WARNING
        if gathers_raw or _part(call, host) >= MEMORY_RATIO
        else Severity.INFO,
        confidence=Confidence.HIGH if gathers_raw else Confidence.MEDIUM,
        location=call.location,
    )


def _part(call: Call, host: Mapping[int, Facts]) -> float:
    """Return which part of the memory of a host the copies take, 0 where that is not known."""
    limits = [own.limit_bytes for own in host.values() if own.limit_bytes]
    return _taken(call, len(host)) / min(limits) if limits else 0.0


def _taken(call: Call, ranks_there: int) -> int:
    """Return the bytes that the call takes on a host: as they arrive, and as new objects."""
    copies = call.ranks if call.operation in (*TO_ALL, *TO_ONE) else 1
    receivers = 1 if call.operation in TO_ONE else min(ranks_there, call.ranks)
    return 2 * copies * receivers * call.size_bytes
