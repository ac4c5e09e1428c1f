"""Other processes of this machine that take part in a job like this one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec
import psutil

OURS = "ddpcheck"


class Rank(msgspec.Struct, frozen=True):
    """A process that was started as a rank, and where it was told to meet the others."""

    pid: int
    rank: int
    place: str


def place_in(environ: Mapping[str, str]) -> str:
    """Return where the ranks of this environment meet, as ADDRESS:PORT."""
    return f"{environ.get('MASTER_ADDR', '')}:{environ.get('MASTER_PORT', '')}"


def ranks_elsewhere(environ: Mapping[str, str]) -> list[Rank]:
    """Return the ranks of a job of the same size on this machine that meet at another place.

    Sees ddpcheck's own processes, as far as this user may read them.
    """
    here, size = place_in(environ), environ.get("WORLD_SIZE", "")
    others = _environments()
    return [
        Rank(pid, int(each["RANK"]), place_in(each))
        for pid, each in others
        if each.get("WORLD_SIZE") == size
        and each.get("RANK", "").isdecimal()
        and place_in(each) != here
    ]


def _environments() -> Iterator[tuple[int, Mapping[str, str]]]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and any(OURS in word for word in process.cmdline()):
                yield process.pid, process.environ()
