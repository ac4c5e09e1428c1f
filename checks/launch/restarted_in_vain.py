"""The job is started again and again, and fails each time in the same way.

Why it matters
    A wrong import, a missing file, a setting that does not exist: what is wrong from the start is
    wrong after a restart as well. torchrun starts the ranks --max-restarts times all the same, and
    the first error, which says it all, is far up in the log.

What to do
    Mend the error that is named; restarts are for failures that pass. Give --max-restarts=0 until
    the script comes to its first steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.testimony import is_victims


class Attempt(msgspec.Struct, frozen=True):
    """How one start ended: in which step, by which error, "Type: text", and where."""

    number: int
    step: int
    error: str
    location: Location | None = None


class Facts(msgspec.Struct, frozen=True):
    """How this rank's starts under this launcher ended, the last one included."""

    attempts: tuple[Attempt, ...]


class Observer:
    """Hears what the script raised, and what it raised in the starts before."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._attempts: tuple[Attempt, ...] = ()

    def on_raise(self, step: int, error: BaseException) -> None:
        """Note it beside those before."""
        from ddpcheck.watch.attempts import number_of, remembered
        from ddpcheck.watch.callsite import users_line_of

        number = number_of(self._ctx.environ)
        if number is None:  # nobody starts this rank again
            return
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
        own = msgspec.json.encode(Attempt(number, step, text, users_line_of(error))).decode()
        lines = remembered(self._ctx.environ, self._ctx.rank, own)
        self._attempts = tuple(msgspec.json.decode(line, type=Attempt) for line in lines)

    def facts(self) -> Facts:
        """Return how the starts ended; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return Facts(self._attempts)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks that failed several times at the start, by one error."""
    bad = {rank: same for rank, own in sorted(facts.items()) if len(same := _same(own)) > 1}
    if not bad:
        return []
    rank = max(bad, key=lambda each: len(bad[each]))
    first = bad[rank][0]
    return [
        Finding(
            title=f"{len(bad[rank])} starts failed in the same way",
            message=f"{first.error}: so ended {len(bad[rank])} starts of rank {rank}, each before "
            "its first step",
            fix="mend it: to start again does not help; --max-restarts=0 until then",
            ranks=tuple(bad),
            severity=Severity.ERROR,
            confidence=Confidence.HIGH,
            location=first.location,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many starts failed."""
    return f"{max(len(own.attempts) for own in facts.values())} failed starts"


def _same(own: Facts) -> list[Attempt]:
    """Return the last starts that ended alike, each before its first step."""
    same: list[Attempt] = []
    for each in reversed(_own_doing(own.attempts)):
        if each.step or (same and (each.error, each.location) != (same[0].error, same[0].location)):
            break
        same.insert(0, each)
    return same


def _own_doing(attempts: Sequence[Attempt]) -> Sequence[Attempt]:
    """Return those that did not merely lose a peer, or never met, if any did something else.

    Who fails on another rank first, or late, is no other reason for the start to fail.
    """
    others = [each for each in attempts if each.step or not is_victims(each.error)]
    return others if any(not each.step for each in others) else attempts
