"""A rank's black box: a small file, written through memory, that survives its process.

It holds the check that the rank is in and its last collectives. A neighbour reads it when the
rank is killed, stopped, or holds the GIL for ever.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec

from ddpcheck import jsontext
from ddpcheck.measures.testimony import Call, GroupCalls
from ddpcheck.secrecy.redaction import redacted_text

SLOT_BYTES = 256
CALL_SLOTS = 256
# A file beside it has the calls on groups of a watched script: each is told with the group's name
# and its number there.
GROUPS_SUFFIX = ".groups"
MARK = "\t"
SIZE_BYTES = SLOT_BYTES * (1 + CALL_SLOTS)


class Flight(msgspec.Struct, frozen=True):
    """What a black box tells: the rank's check, and its last collectives in order."""

    check: str = ""
    calls: tuple[Call, ...] = ()


class BlackBox:
    """Written by one rank's main thread; a file that cannot be made is done without."""

    def __init__(self, path: Path | None) -> None:
        self._map = _mapped(path)
        self._calls: dict[int, Call] = {}
        self._check = ""
        self._number = 0
        self._all = hashlib.blake2b(digest_size=8)

    @property
    def digest(self) -> str:
        """Return a digest of all collectives so far: equal on ranks that called the same."""
        return self._all.hexdigest()

    @property
    def flight(self) -> Flight:
        """Return what the box holds, as a neighbour would read it."""
        return Flight(self._check, tuple(self._calls[each] for each in sorted(self._calls)))

    def enter_check(self, check: str) -> None:
        """Note the check that begins."""
        self._check = check
        self._write(0, jsontext.encode(_told(check)))

    @property
    def count(self) -> int:
        """Return how many collectives were entered."""
        return self._number

    def enter_call(self, what: str, site: str) -> Call:
        """Note that the rank enters a collective; return it, for ``leave_call``."""
        self._number += 1
        self._all.update(what.encode() + b"\n")
        call = Call(self._number, _told(what), _told(site), done=False)
        self._keep(call)
        return call

    def leave_call(self, call: Call) -> None:
        """Note that the rank has left this collective."""
        self._keep(msgspec.structs.replace(call, done=True))

    def _keep(self, call: Call) -> None:
        self._calls.pop(call.number - CALL_SLOTS, None)
        self._calls[call.number] = call
        self._write(1 + call.number % CALL_SLOTS, msgspec.json.encode(call))

    def _write(self, slot: int, text: bytes) -> None:
        if self._map is not None:
            start = slot * SLOT_BYTES
            self._map[start : start + SLOT_BYTES] = text[:SLOT_BYTES].ljust(SLOT_BYTES, b"\0")


@lru_cache(CALL_SLOTS)
def _told(text: str) -> str:
    """Return a text without secrets; a script calls its few collectives again and again."""
    return redacted_text(text)


def read_box(path: Path) -> Flight:
    """Return what a black box holds; a slot that was half written is left out."""
    try:
        content = path.read_bytes()
    except OSError:
        return Flight()
    slots = [content[at : at + SLOT_BYTES].rstrip(b"\0") for at in range(0, SIZE_BYTES, SLOT_BYTES)]
    calls = sorted(_calls(slots[1:]), key=lambda call: call.number)
    try:
        return Flight(jsontext.decode(slots[0], str), tuple(calls))
    except msgspec.DecodeError:
        return Flight("", tuple(calls))


def groups_on_file(box: Path | None) -> tuple[GroupCalls, ...]:
    """Return the last calls on groups that stand beside a rank's black box."""
    found: dict[str, list[Call]] = {}
    for each in read_box(box.with_suffix(GROUPS_SUFFIX)).calls if box else ():
        name, number, what = each.what.split(MARK, 2) if each.what.count(MARK) > 1 else ("",) * 3
        if number.isdigit():
            found.setdefault(name, []).append(Call(int(number), what, each.site, each.done))
    return tuple(GroupCalls(name, (), tuple(calls)) for name, calls in found.items())


def _calls(slots: list[bytes]) -> Iterator[Call]:
    for slot in slots:
        with suppress(msgspec.DecodeError):
            yield jsontext.decode(slot, Call)


def _mapped(path: Path | None) -> mmap.mmap | None:
    if path is None:
        return None
    try:
        with path.open("w+b") as file:
            # Space that is not there would end the process when it is first written to.
            os.posix_fallocate(file.fileno(), 0, SIZE_BYTES)
            return mmap.mmap(file.fileno(), SIZE_BYTES)
    except OSError:
        return None
