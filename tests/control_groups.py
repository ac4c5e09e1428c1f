"""Control groups with limits of their own, in which tests start processes (root only)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ddpcheck.network.polling import wait_until

PATIENCE_S = 10.0
GROUPS = Path("/sys/fs/cgroup")
JOIN = 'echo $$ > "$1/cgroup.procs" && shift && exec "$@"'


@contextmanager
def group(controller: str, limits: Mapping[str, str]) -> Generator[Path]:
    """Make a control group with these limits, and remove it; skips where none can be made."""
    if os.getuid() != 0:
        pytest.skip("making control groups needs root")
    parent = GROUPS / controller if (GROUPS / controller).is_dir() else GROUPS
    folder = parent / f"ddpcheck-{uuid.uuid4().hex}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("control groups cannot be made here")
    try:
        if not all((folder / name).exists() for name in limits):
            pytest.skip(
                f"the controller {controller} is not handed down here, or is another version"
            )
        for name, text in limits.items():
            (folder / name).write_text(text)
        yield folder
    finally:
        # The host of a store, say, leaves a moment after the ranks.
        assert wait_until(lambda: _is_removed(folder), PATIENCE_S)


def _is_removed(folder: Path) -> bool:
    """Remove the group, unless processes are in it."""
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def within(folder: Path, command: Sequence[str]) -> list[str]:
    """Return the command that runs ``command`` in that group."""
    return ["sh", "-c", JOIN, "sh", str(folder), *command]


def quota(cores: float) -> dict[str, str]:
    """Return the limits of a group whose processes get the time of so many cores."""
    time_us = int(cores * 100_000)
    if (GROUPS / "cpu").is_dir():
        return {"cpu.cfs_quota_us": str(time_us)}
    return {"cpu.max": f"{time_us} 100000"}


def memory(limit_bytes: int) -> dict[str, str]:
    """Return the limits of a group whose processes may use so much memory."""
    version_1 = (GROUPS / "memory").is_dir()
    return {"memory.limit_in_bytes" if version_1 else "memory.max": str(limit_bytes)}


def tasks(count: int) -> dict[str, str]:
    """Return the limits of a group of so many processes and threads."""
    return {"pids.max": str(count)}
