"""The shared memory of this process's machine or container: /dev/shm."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

PLACE = Path("dev/shm")


class Space(msgspec.Struct, frozen=True):
    """How large it is, and how much of it is free, in bytes; ``device`` is the file system's number.

    ``free_files`` is how many files it still takes, None without a limit (nr_inodes=0).
    """

    size_bytes: int
    free_bytes: int
    free_files: int | None
    device: int


def shared_memory(root: Path = Path("/")) -> Space | None:
    """Return the space in /dev/shm, or None where there is no such folder."""
    try:
        told = os.statvfs(root / PLACE)
        device = (root / PLACE).stat().st_dev
    except OSError:
        return None
    return Space(
        size_bytes=told.f_blocks * told.f_frsize,
        free_bytes=told.f_bavail * told.f_frsize,
        free_files=told.f_favail if told.f_files else None,
        device=device,
    )
