"""A process group does not have the timeout that the script gave to init_process_group.

Why it matters
    The timeout of init_process_group is that of the group of all ranks alone. A group that is made
    without one has the backend's own (30 minutes for gloo, 10 for NCCL): a hang in it is noticed
    that much later than the script asked for, or slow work that all ranks were given hours for ends
    the job.

What to do
    Give each group its timeout: new_group(ranks, timeout=timedelta(...)).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.watch.meetings import Called, Grouped

KEPT_COUNT = 64
# What torch gives to NCCL's groups and to others, where the script says nothing (default_pg_timeout
# and default_pg_nccl_timeout in torch/distributed/constants.py).
DEFAULTS_S = (600.0, 1800.0)


class Made(msgspec.Struct, frozen=True):
    """A group that was made without a word of its timeout, and how often the script called on it."""

    ranks: tuple[int, ...]
    timeout_s: float
    location: Location | None
    calls: int = 0


class Facts(msgspec.Struct, frozen=True):
    """The groups that this rank is in, and the timeout of that of all ranks."""

    made: tuple[Made, ...]
    world_timeout_s: float | None


class Observer:
    """Keeps the groups that were made without a timeout, and counts the calls on them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._made: list[Made] = []
        self._calls: Counter[tuple[int, ...]] = Counter()
        self._world_timeout_s: float | None = None

    def on_grouped(self, group: Grouped) -> None:
        """Keep it."""
        self._world_timeout_s = group.world_timeout_s
        if group.is_timed or group.timeout_s is None or len(self._made) >= KEPT_COUNT:
            return
        self._made.append(Made(group.ranks, group.timeout_s, group.location))

    def on_called(self, call: Called) -> None:
        """Count a call on a group."""
        self._calls[call.group] += 1

    def facts(self) -> Facts:
        """Return the groups; raises Skip where there are none."""
        self._ctx.require_watch()
        if not self._made:
            raise Skip("the script made no process group without a timeout of its own")
        made = (msgspec.structs.replace(e, calls=self._calls[e.ranks]) for e in self._made)
        return Facts(tuple(made), self._world_timeout_s)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line whose groups have another timeout than all ranks' has."""
    lines: dict[str, dict[int, tuple[Made, float]]] = {}
    for rank, own in sorted(facts.items()):
        asked_s = own.world_timeout_s
        if asked_s is None or asked_s in DEFAULTS_S:
            continue
        for each in own.made:
            if each.timeout_s != asked_s:
                lines.setdefault(str(each.location), {})[rank] = (each, asked_s)
    return [_finding(told) for told in lines.values()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many groups were looked at."""
    return f"{max(len(own.made) for own in facts.values())} groups a rank were looked at"


def _finding(told: Mapping[int, tuple[Made, float]]) -> Finding:
    first, asked_s = next(iter(told.values()))
    is_used = any(each.calls for each, _ in told.values())
    return Finding(
        title=f"a process group gives up after {first.timeout_s:.0f} s, not after {asked_s:.0f} s",
        message=f"init_process_group was given {asked_s:.0f} s; the group of rank "
        f"{spans(first.ranks)} was made without a timeout, and has its backend's own, "
        f"{first.timeout_s:.0f} s" + ("" if is_used else "; the script has not called on it yet"),
        fix=f"new_group(..., timeout=timedelta(seconds={asked_s:.0f}))",
        ranks=tuple(told),
        severity=Severity.WARNING if is_used else Severity.INFO,
        confidence=Confidence.HIGH,
        location=first.location,
    )
