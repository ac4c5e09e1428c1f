"""An asynchronous collective is called, and what could be waited for is thrown away.

Why it matters
    With async_op=True the call returns before anything has been exchanged. Whoever reads or changes
    the tensor before handle.wait() works on old values, or on half of the new ones: no error, and
    a result that differs from run to run.

What to do
    Keep the handle that the call returns, and call its wait() before the tensor is used; or leave
    out async_op=True where there is nothing to do in the meantime.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity

KEPT_COUNT = 20


class Dropped(msgspec.Struct, frozen=True):
    """A call whose handle is thrown away, where, and how often it came."""

    what: str
    location: Location | None
    count: int


class Facts(msgspec.Struct, frozen=True):
    """The calls by their line, in the order of their first coming."""

    calls: list[Dropped]


class Observer:
    """Counts the calls that are told of, by their lines."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._seen: dict[str, Dropped] = {}
        self._trains = False

    def on_built(self, _live: object) -> None:
        """Note that there is a training."""
        self._trains = True

    def on_dropped(self, what: str, location: Location | None) -> None:
        """Count the call."""
        before = self._seen.get(str(location))
        if before is not None or len(self._seen) < KEPT_COUNT:
            count = before.count + 1 if before else 1
            self._seen[str(location)] = Dropped(before.what if before else what, location, count)

    def facts(self) -> Facts:
        """Return the counts."""
        self._ctx.require_watch()
        if not (self._trains or self._seen):
            raise Skip("the script trained nothing")
        return Facts(list(self._seen.values()))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a warning for each line, with the ranks that came there."""
    lines: dict[str, dict[int, Dropped]] = {}
    for rank, own in sorted(facts.items()):
        for each in own.calls:
            lines.setdefault(str(each.location), {})[rank] = each
    return [_finding(told) for told in lines.values()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return what was not seen."""
    any_dropped = any(own.calls for own in facts.values())
    return "" if any_dropped else "no asynchronous collective whose handle is thrown away"


def _finding(told: Mapping[int, Dropped]) -> Finding:
    first = next(iter(told.values()))
    return Finding(
        title="an asynchronous collective is never waited for",
        message=f"{first.what} is called with async_op=True, and the handle that it returns is not "
        f"kept, {max(each.count for each in told.values())} times: what is read afterwards may be "
        "the old values",
        fix="keep the handle and call its wait() before the tensor is used, or drop async_op=True",
        ranks=tuple(told),
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        location=first.location,
    )
