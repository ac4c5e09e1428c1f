"""How pytest has one test run on ranks, and reports it as one test."""

from __future__ import annotations

import inspect
import math
import operator
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

import pytest

from ddpcheck.testing.combining import Outcome, combined, refused
from ddpcheck.testing.errands import Called, Done, Errand, Phase, Unable, Warned
from ddpcheck.testing.pool import Pool, Rank
from ddpcheck.testing.standing import LOOK_S, Standing, stands_now, told

# Once ranks have died, the others have this long: gloo tells them at once.
GRACE_S = 5.0
BACKENDS = ("auto", "gloo", "nccl")


@dataclass(frozen=True)
class Wanted:
    """What the marker says."""

    ranks: int
    timeout_s: float
    backend: str
    group: bool


def wanted_by(item: pytest.Item) -> Wanted:
    """Return what the test's marker says; raises pytest.UsageError where that makes no sense."""
    marker = item.get_closest_marker("ranks") or pytest.mark.ranks().mark

    def ranks(n: int, *, timeout: float = 0, backend: str = "auto", group: bool = True) -> Wanted:
        return Wanted(operator.index(n), float(timeout or usual_s), backend, group)

    usual_s = _usual_s(item.config)
    try:
        found = ranks(*marker.args, **marker.kwargs)
    except (TypeError, ValueError) as error:
        told = str(error).replace("wanted_by.<locals>.", "")
        raise pytest.UsageError(f"@pytest.mark.ranks{inspect.signature(ranks)}: {told}") from error
    if found.ranks < 1 or found.backend not in BACKENDS:
        raise pytest.UsageError(
            f"@pytest.mark.ranks({found.ranks!r}, backend={found.backend!r}): give a number of ranks "
            f"from 1, and a backend of {', '.join(BACKENDS)}"
        )
    if not 0 < found.timeout_s < math.inf:
        raise pytest.UsageError(
            f"@pytest.mark.ranks(timeout={found.timeout_s:g}): give seconds, more than 0"
        )
    return found


def _usual_s(config: pytest.Config) -> float:
    written = config.getini("ranks_timeout")
    try:
        return float(written)
    except ValueError as error:
        raise pytest.UsageError(f"ranks_timeout = {written}: give a number of seconds") from error


def run_on_ranks(item: pytest.Item, nextitem: pytest.Item | None, pool: Callable[[], Pool]) -> None:
    """Run the test on ranks, and have pytest log how it went."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _reports(item, nextitem, pool):
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _reports(
    item: pytest.Item, nextitem: pytest.Item | None, pool: Callable[[], Pool]
) -> list[pytest.TestReport]:
    try:
        wanted = wanted_by(item)
        session = Session(item, wanted, pool())
        outcome = session.run(nextitem)
    except (pytest.UsageError, pytest.fail.Exception) as error:
        return refused(item, str(error))
    return combined(item, outcome)


@dataclass
class Session:
    """One test on its ranks."""

    item: pytest.Item
    wanted: Wanted
    pool: Pool
    outcome: Outcome = field(init=False)
    _let_go: set[int] = field(default_factory=set[int])
    _warned: set[Warned] = field(default_factory=set[Warned])

    def run(self, nextitem: pytest.Item | None) -> Outcome:
        """Return what became of it on each rank."""
        self.outcome = Outcome(self.wanted.ranks)
        ranks = self.pool.ranks(self.wanted.ranks)
        port, shared = self.pool.new_store(), self.pool.new_folder()
        for number, rank in enumerate(ranks):
            errand = self._errand(number, nextitem, port, str(shared))
            try:
                rank.connection.send(errand)
            except OSError:
                self._gone(number, rank)
        try:
            self._until_all_have_called(ranks)
            self._until_all_are_done(ranks)
        except BaseException:
            self.pool.discard(())
            raise
        if self.outcome.is_poisoned():
            others = range(self.wanted.ranks, self.pool.size)
            self.pool.discard({*self.outcome.done, *others})
        return self.outcome

    def _errand(self, rank: int, nextitem: pytest.Item | None, port: int, shared: str) -> Errand:
        following = nextitem if nextitem is not None and _ranks_of(nextitem) > rank else None
        return Errand(
            file=str(self.item.path),
            nodeid=self.item.nodeid,
            next_file=str(following.path) if following else "",
            next_nodeid=following.nodeid if following else "",
            rank=rank,
            world_size=self.wanted.ranks,
            port=port,
            backend=self.wanted.backend,
            group=self.wanted.group,
            shared_folder=shared,
            # The verdict here comes first, with all stacks.
            timeout_s=2 * self.wanted.timeout_s + GRACE_S,
        )

    def _until_all_have_called(self, ranks: list[Rank]) -> None:
        """Wait until no rank is in the test's body any more; then let all of them go on."""
        until = time.monotonic() + self.wanted.timeout_s
        standing, gone = Standing(), frozenset[int]()
        while self._still_in_the_body(ranks):
            # Who failed has its say as well, and is let go: it may hold connections to its end.
            self._hear(self._not_over(ranks), min(LOOK_S, max(0.0, until - time.monotonic())))
            if self.outcome.has_failed():
                # Those that have come to their end leave the group, which others may wait in.
                self._let_go_on(ranks)
                if self.outcome.ended and self._failed_have_gone(ranks):
                    until = min(until, time.monotonic() + GRACE_S)
            if gone != (now_gone := self._failed_and_gone(ranks)):
                standing, gone = Standing(), now_gone  # who waits for them is yet to be told
            left = self._still_in_the_body(ranks)
            over = time.monotonic() > until
            if left and (over or standing.is_hopeless([*self._at_the_end(), *gone], left)):
                self.outcome.hang = told(self.item.name, stands_now(left), self._at_the_end())
                return
        self._let_go_on(ranks)

    def _let_go_on(self, ranks: list[Rank]) -> None:
        for number in set(self.outcome.called) - self._let_go:
            self._let_go.add(number)
            with suppress(OSError):  # it is gone, which will be heard
                ranks[number].connection.send("all have called")

    def _failed_have_gone(self, ranks: list[Rank]) -> bool:
        """Return whether others can have heard of it: not while fixtures are taken down, say."""
        failed = [number for number, how in self.outcome.called.items() if how == "failed"]
        return not any(ranks[number].process.is_alive() for number in failed)

    def _failed_and_gone(self, ranks: list[Rank]) -> frozenset[int]:
        """Return the ranks that failed, once they have gone; none while one of them is there."""
        if not self._failed_have_gone(ranks):
            return frozenset()
        return frozenset(n for n, how in self.outcome.called.items() if how == "failed")

    def _until_all_are_done(self, ranks: list[Rank]) -> None:
        """Wait for what comes after the body: fixtures that are taken down."""
        until = time.monotonic() + self.wanted.timeout_s
        while not self.outcome.hang:
            waiting = self._not_over(ranks)
            if not waiting:
                return
            self._hear(waiting, LOOK_S)
            if time.monotonic() > until:
                self.outcome.hang = told(self.item.name, stands_now(waiting), {})

    def _at_the_end(self) -> dict[int, str]:
        """Return the ranks that will enter no collective any more."""
        return {n: how for n, how in self.outcome.called.items() if how != "failed"}

    def _still_in_the_body(self, ranks: list[Rank]) -> dict[int, Rank]:
        return {n: r for n, r in self._not_over(ranks).items() if n not in self.outcome.called}

    def _not_over(self, ranks: list[Rank]) -> dict[int, Rank]:
        return {n: r for n, r in enumerate(ranks) if not self.outcome.is_over(n)}

    def _hear(self, waiting: dict[int, Rank], within_s: float) -> None:
        by_connection: dict[Any, int] = {rank.connection: n for n, rank in waiting.items()}
        by_sentinel: dict[Any, int] = {rank.process.sentinel: n for n, rank in waiting.items()}
        ready = wait([*by_connection, *by_sentinel], timeout=within_s)
        for each in ready:
            if each in by_connection:
                self._take(by_connection[each], waiting[by_connection[each]])
        for each in ready:
            # What it said before it died is heard first.
            if each in by_sentinel and by_connection.keys().isdisjoint(ready):
                self._gone(by_sentinel[each], waiting[by_sentinel[each]])

    def _take(self, number: int, rank: Rank) -> None:
        try:
            said = rank.connection.recv()
        except (EOFError, OSError):
            self._gone(number, rank)
            return
        if isinstance(said, Phase):
            hook = self.item.config.hook
            report = hook.pytest_report_from_serializable(config=self.item.config, data=said.report)
            self.outcome.take(number, report)
        elif isinstance(said, Warned):
            if said not in self._warned:  # of all ranks once
                self._warned.add(said)
                _warn(said)
        elif isinstance(said, Called):
            self.outcome.called[number] = said.outcome
        elif isinstance(said, Done):
            self.outcome.done[number] = said.worn
            if self.outcome.called.get(number) == "failed":
                rank.let_go()  # its connections close, and ranks that wait for it raise
        elif isinstance(said, Unable):
            self.outcome.unable[number] = said.reason + _quoted(rank.last_words())
            rank.let_go()

    def _gone(self, number: int, rank: Rank) -> None:
        rank.process.join()
        if number not in self.outcome.unable:
            self.outcome.ended[number] = rank.ended_by()
            self.outcome.last_words[number] = rank.last_words()


def _warn(told: Warned) -> None:
    """Warn as the rank did; pytest records what is warned of while it runs a test."""
    # By what both have imported alone: what a rank says must not run anything here.
    found = getattr(sys.modules.get(told.module), told.category, UserWarning)
    kind = found if isinstance(found, type) and issubclass(found, Warning) else UserWarning
    with suppress(Warning):  # where they are errors: the rank has passed over this one
        warnings.warn_explicit(told.text, kind, told.file, told.line, registry={})


def _ranks_of(item: pytest.Item) -> int:
    if item.get_closest_marker("ranks") is None:
        return 0
    try:
        return wanted_by(item).ranks
    except pytest.UsageError:
        return 0


def _quoted(words: str) -> str:
    return f":\n{words}" if words else ""
