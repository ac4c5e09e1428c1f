"""NCCL's own log of the process group under test, for the checks to read."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path

DEBUG, FILE, SUBSYSTEMS = "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"
# What tells of paths, networks and variables.
WANTED = {DEBUG: "INFO", SUBSYSTEMS: "INIT,ENV,NET"}
# It is on purpose that unbatched sends are tried, too: torch need not warn of them.
KNOWN = "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING"
# At these levels a user reads warnings only: they are handed on.
QUIET = ("", "VERSION", "WARN")


def may_keep_log(environ: Mapping[str, str]) -> bool:
    """Return whether NCCL's log is not one that the user wants to read."""
    return environ.get(DEBUG, "").upper() in QUIET and not environ.get(FILE)


@contextmanager
def kept_log(environ: MutableMapping[str, str]) -> Generator[Path | None]:
    """Let what NCCL starts meanwhile write its log to a file of its own; None if it may not."""
    known = {} if KNOWN in environ else {KNOWN: "false"}
    if not may_keep_log(environ):
        with _set(environ, known):
            yield None
        return
    handle, name = tempfile.mkstemp(prefix="ddpcheck-nccl-", suffix=".log")
    os.close(handle)
    with _set(environ, WANTED | known | {FILE: name}):
        yield Path(name)


@contextmanager
def _set(environ: MutableMapping[str, str], changes: Mapping[str, str]) -> Generator[None]:
    """Set variables until the end of the block.

    NCCL and torch read them when a process makes its first group; they are put back before any
    code of the user's could see them.
    """
    before = {key: environ.get(key) for key in changes}
    environ.update(changes)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                environ.pop(key, None)
            else:
                environ[key] = value


def close_log(log: str, environ: Mapping[str, str]) -> None:
    """Hand on the warnings to a user who asked for them, and remove the file."""
    if environ.get(DEBUG, "").upper() == "WARN":
        with suppress(OSError):
            lines = Path(log).read_text(errors="replace").splitlines()
            sys.stderr.writelines(f"{line}\n" for line in lines if "NCCL WARN" in line)
    Path(log).unlink(missing_ok=True)
