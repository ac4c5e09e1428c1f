"""A file that one rank does not find is there on another host, or came a moment later.

Why it matters
    What rank 0 alone prepares (an index, a vocabulary, a folder for checkpoints, the shards of a
    distributed checkpoint) lies on the disk of its own host, unless the path is on storage that all
    hosts share; and on that one, too, it is there for the others only once rank 0 has written it.
    It works on one machine, or on the second try, and fails elsewhere.

What to do
    On hosts without shared storage let the first rank of each host prepare it (LOCAL_RANK 0). In
    any case let the others wait until it is written: a barrier after it, on all ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location
from ddpcheck.measures.words import spans

ID = "data/missing-file"
# What the first ranks miss is looked for; thousands of ranks may miss one file.
KEPT_COUNT = 8
# As Python's own errors say it, and torch.save of the folder that it is to write into.
NOT_THERE = (
    re.compile(r"No such file or directory: '([^']+)'"),
    re.compile(r"Parent directory (\S+) does not exist"),
)


class Facts(msgspec.Struct, frozen=True):
    """Which file a rank did not find, and whether what others did not find is there for it."""

    host: str
    path: str = ""
    location: Location | None = None
    there: dict[int, bool] = {}


class Observer:
    """Lets the others know which file is missing."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._facts = Facts(ctx.host)

    def on_raise(self, _step: int, error: BaseException) -> None:
        """Note the file, if it is for want of one."""
        from ddpcheck.watch.callsite import users_line_of

        path = missing_path(error)
        if not path:
            return
        self._facts = Facts(self._ctx.host, str(Path(path).absolute()), users_line_of(error))
        store = self._ctx.store
        number = store.add(ID, 1) if store is not None else KEPT_COUNT + 1
        if store is not None and number <= KEPT_COUNT:
            store.set(f"{ID}/{number}", f"{self._ctx.rank} {self._facts.path}")

    def facts(self) -> Facts:
        """Return what is missing, and what of the others' is there."""
        self._ctx.require_watch()
        return msgspec.structs.replace(self._facts, there=dict(self._found_here()))

    def _found_here(self) -> Iterator[tuple[int, bool]]:
        store = self._ctx.store
        if store is None or not store.check([ID]):  # one question, where nothing is missing
            return
        for number in range(1, KEPT_COUNT + 1):
            if store.check([f"{ID}/{number}"]):
                rank, _, path = store.get(f"{ID}/{number}").decode().partition(" ")
                yield int(rank), Path(path).exists()


def missing_path(error: BaseException) -> str:
    """Return the path that an exception says is not there, '' where it says no such thing."""
    own = getattr(error, "filename", None)
    if isinstance(error, FileNotFoundError) and isinstance(own, str):
        return own
    found = (pattern.search(str(error)) for pattern in NOT_THERE)
    return next((each[1] for each in found if each), "")


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks that miss what is there for others, or by now for all."""
    paths = {own.path for own in facts.values() if own.path}
    every = [
        (path, {rank: own for rank, own in facts.items() if own.path == path})
        for path in sorted(paths)
    ]
    return [finding for path, missing in every for finding in _of(path, missing, facts)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return what did not happen, if it did not."""
    return "" if judge(facts) else "no file was missing for one rank alone"


def _of(path: str, missing: Mapping[int, Facts], facts: Mapping[int, Facts]) -> list[Finding]:
    have = {r: own for r, own in facts.items() if any(own.there.get(each) for each in missing)}
    if not have:
        return []
    first = next(iter(missing.values()))
    without = {own.host for own in missing.values()}
    elsewhere = [own.host for own in have.values() if own.host not in without]
    is_late = any(own.host in without for own in have.values())
    where = "" if is_late else f" of {', '.join(sorted(without))}: it is there on {elsewhere[0]}"
    return [
        Finding(
            title="a file was missing when a rank came for it"
            if is_late
            else "a file is on one host and not on another",
            message=f"rank {spans(missing)} did not find {path}{where}"
            + (", and it is there now: another process wrote it meanwhile" if is_late else ""),
            fix="let the other ranks wait until it is written: a barrier on all ranks after it"
            if is_late
            else "put it on storage that all hosts share, or let LOCAL_RANK 0 of each host write it",
            ranks=tuple(missing),
            confidence=Confidence.HIGH,
            location=first.location,
        )
    ]
