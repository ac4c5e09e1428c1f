"""The exit codes of ranks that torch's elastic agent starts: it ends with 1, whatever theirs was."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ddpcheck.errors import ExitCode

# Names the folder, for the ranks of one host, in which each leaves its exit code.
VARIABLE = "DDPCHECK_EXIT_CODES"
# The first that a rank ended with is the command's: an interrupted run is not complete either,
# and one that is not complete has findings.
GRAVEST_FIRST = (
    ExitCode.INTERRUPTED,
    ExitCode.INCOMPLETE,
    ExitCode.INTERNAL,
    ExitCode.USAGE,
    ExitCode.FINDINGS,
    ExitCode.OK,
)


@contextmanager
def kept_exit_codes() -> Generator[Path]:
    """Yield a folder for the exit codes of ranks, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ddpcheck-") as folder:
        yield Path(folder)


def leave_exit_code(environ: Mapping[str, str], code: int) -> None:
    """Write what this process ends with where ddpcheck looks for it, if ddpcheck has started it."""
    if folder := environ.get(VARIABLE):
        with suppress(OSError):
            Path(folder, str(os.getpid())).write_text(str(int(code)))


def exit_code_of_ranks(folder: Path, agents: int) -> int:
    """Return the exit code for a host whose agent ended with ``agents``.

    An agent that failed, and of whose ranks none has left a code, has lost them all.
    """
    if not agents:
        return ExitCode.OK
    return gravest(_codes_in(folder), default=ExitCode.INCOMPLETE)


def gravest(codes: Iterable[int], default: ExitCode) -> ExitCode:
    """Return the code that wins over the others; OK and unknown ones say nothing of a failure."""
    failures = set(codes) - {ExitCode.OK}
    return next((code for code in GRAVEST_FIRST if code in failures), default)


def _codes_in(folder: Path) -> list[int]:
    texts = [file.read_text() for file in folder.iterdir()]
    return [int(text) for text in texts if text.isdecimal()]
