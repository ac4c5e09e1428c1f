"""Other processes of this machine that take part in a job like this one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from ddpcheck.measures.rank_process import RankProcess

OURS = "ddpcheck"


def place_in(environ: Mapping[str, str]) -> str:
    """Return where the ranks of this environment meet, as ADDRESS:PORT."""
    return f"{environ.get('MASTER_ADDR', '')}:{environ.get('MASTER_PORT', '')}"


def ranks_elsewhere(environ: Mapping[str, str]) -> list[RankProcess]:
    """Return the ranks of a job of the same size here that meet at another port of MASTER_ADDR.

    They may be another job's.
    """
    here, address = place_in(environ), f"{environ.get('MASTER_ADDR', '')}:"
    others = (each for each in _ranks(environ) if each.place.startswith(address))
    return [each for each in others if each.place != here]


def ranks_here(environ: Mapping[str, str]) -> list[RankProcess]:
    """Return the other ranks of this job on this machine, whether they have come so far or not."""
    here = place_in(environ)
    return [each for each in _ranks(environ) if each.place == here]


def _ranks(environ: Mapping[str, str]) -> Iterator[RankProcess]:
    """Yield ddpcheck's own processes in a job of that size, as far as this user may read them."""
    size = environ.get("WORLD_SIZE", "")
    for pid, each in _environments():
        if each.get("WORLD_SIZE") == size and each.get("RANK", "").isdecimal():
            yield RankProcess(pid, int(each["RANK"]), place_in(each))


def own_pids() -> tuple[int, ...]:
    """Return this process and those that started it: they belong to the run."""
    import psutil

    with suppress(psutil.Error):
        return (os.getpid(), *(parent.pid for parent in psutil.Process().parents()))
    return (os.getpid(),)


def _environments() -> Iterator[tuple[int, Mapping[str, str]]]:
    import psutil

    with suppress(OSError):  # no more files may be opened, say
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and any(OURS in word for word in process.cmdline()):
                    yield process.pid, process.environ()
