"""Ranks wait long for one that has something else to do.

Why it matters
    A rank that prepares data, compiles, or writes a checkpoint while the others wait in a
    collective is one step away from the end of the job: what takes 10 minutes with the next
    dataset, or a cold cache, passes the timeout of the process group, and the ranks that only
    waited are blamed.

What to do
    Do slow work before the job, or before init_process_group; share what is compiled or prepared
    between ranks; or give the group more time: init_process_group(timeout=timedelta(hours=2)).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.waits import Place, Visit, Wait, kind, longest_waits
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.watch.feeds import Feed
    from ddpcheck.watch.meetings import Called

# Of what the group waits before it gives up: three times as long, and the job is over.
TIMEOUT_RATIO = 1 / 3
KEPT_COUNT = 64
# What takes less is not kept: calls last milliseconds.
KEPT_S = 1.0


class Kept(msgspec.Struct, frozen=True):
    """One call and a rank's part in it."""

    place: Place
    visit: Visit


class Facts(msgspec.Struct, frozen=True):
    """The calls in which a rank was long, or that it came to late, and how many it made of each kind."""

    visits: tuple[Kept, ...]
    counts: dict[str, int]


class Observer:
    """Times what the script calls in torch.distributed, the making of DDP, and backward passes.

    On a GPU only calls that block the host are seen: barrier, and those on objects.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._counts: Counter[str] = Counter()
        self._visits: list[Kept] = []
        self._since: dict[str, float] = {}
        self._within: dict[str, float] = {}

    def on_asked(self, _feed: Feed) -> None:
        """Note that a batch is waited for."""
        self._since["its DataLoader"] = self._ctx.clock()

    def on_fed(self, _feed: Feed) -> None:
        """Note that it has come."""
        self._count("its DataLoader")

    def on_inputs(self, _step: int, _inputs: object) -> None:
        """Note that the model is called."""
        self._since["the forward pass"] = self._ctx.clock()

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note that the loss is there."""
        self._count("the forward pass")

    def on_called(self, call: Called) -> None:
        """Keep a call that was long, or came after long."""
        place = Place(call.name, call.group, 0)
        self._counts[kind(place)] += 1
        if max(call.took_s, call.before_s) >= KEPT_S and len(self._visits) < KEPT_COUNT:
            place = msgspec.structs.replace(place, number=self._counts[kind(place)])
            most = next((each for each, s in self._within.items() if s >= call.before_s / 2), "")
            took_s, before_s = round(call.took_s, 2), round(call.before_s, 2)
            visit = Visit(took_s, before_s, most, call.location, call.timeout_s)
            self._visits.append(Kept(place, visit))
        self._within.clear()

    def facts(self) -> Facts:
        """Return what was kept; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return Facts(tuple(self._visits), dict(self._counts))

    def _count(self, what: str) -> None:
        began = self._since.pop(what, None)
        if began is not None:
            self._within[what] = self._within.get(what, 0.0) + self._ctx.clock() - began


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the longest wait for each late rank at each line."""
    visits = {rank: {each.place: each.visit for each in own.visits} for rank, own in facts.items()}
    counts = {rank: own.counts for rank, own in facts.items()}
    return [_finding(each) for each in longest_waits(visits, counts)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many calls were timed."""
    return f"{max(sum(own.counts.values()) for own in facts.values())} calls were timed"


def _finding(wait: Wait) -> Finding:
    is_near = wait.timeout_s is not None and wait.waited_s > TIMEOUT_RATIO * wait.timeout_s
    late, limit = wait.of_late, wait.timeout_s
    return Finding(
        title=f"rank {spans(wait.waiting)} waited {wait.waited_s:.1f} s for rank {spans(wait.late)}",
        message=f"they were in {wait.name}; rank {spans(wait.late)} came to it"
        + (f" after {late.before_s:.1f} s of other work" if late else "")
        + (f", most of it in {late.inside}" if late and late.inside else "")
        + (f", at {late.location}" if late and late.location != wait.own.location else "")
        + (f"; the group gives up after {limit:.0f} s" if limit else ""),
        fix="do the slow work before the job, or before init_process_group; share what is prepared "
        "or compiled between ranks; or raise init_process_group(timeout=...)",
        ranks=wait.late,
        severity=Severity.WARNING if is_near else Severity.INFO,
        confidence=Confidence.HIGH,
        location=wait.own.location,
    )
