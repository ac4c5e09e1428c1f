"""What a rank remembers of the starts before this one, where a launcher starts it again.

The processes of one start know nothing of the next: a small file in the folder for temporary files
is named after their launcher.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from ddpcheck.launch.elastic import agent_above


def number_of(environ: Mapping[str, str]) -> int | None:
    """Return which start this is, from 0; None where no launcher starts a rank again."""
    told = environ.get("TORCHELASTIC_RESTART_COUNT", "")
    most = environ.get("TORCHELASTIC_MAX_RESTARTS", "")
    return int(told) if told.isdigit() and most.isdigit() and int(most) > 0 else None


def remembered(environ: Mapping[str, str], rank: int, own: str) -> list[str]:
    """Return the lines that were noted in the starts before, and ``own``, which is noted now."""
    file = _file(environ, str(rank))
    every = [*(_lines(file) if number_of(environ) else ()), own]
    _note(file, every)
    return every


def start_before(environ: Mapping[str, str], own: str) -> str:
    """Return what was noted of this agent's start before this one, or ''; ``own`` is noted now."""
    file = _file(environ, "start")
    before = "".join(_lines(file))
    _note(file, [own])
    return before


def agent_of(environ: Mapping[str, str]) -> psutil.Process:
    """Return the process that starts this rank, again if need be."""
    return agent_above(environ) or psutil.Process(os.getppid())


def _note(file: Path, every: Sequence[str]) -> None:
    with suppress(OSError):
        # Others may write to that folder, too: no link of theirs is followed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(file, flags, 0o600), "w") as written:
            written.write("\n".join(every))


def _file(environ: Mapping[str, str], whose_start: str) -> Path:
    agent = agent_of(environ)
    run = environ.get("TORCHELASTIC_RUN_ID", "")
    name = "".join(each for each in run if each.isalnum())
    whose = f"{os.getuid()}-{agent.pid}-{agent.create_time():.2f}-{name}-{whose_start}"
    return Path(tempfile.gettempdir()) / f"ddpcheck-starts-{whose}.json"


def _lines(file: Path) -> list[str]:
    """Return what is in it, if nobody else can have written it."""
    try:
        return file.read_text().splitlines() if file.stat().st_uid == os.getuid() else []
    except OSError:
        return []
