"""The shared memory of this process's machine or container: /dev/shm."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

PLACE = Path("dev/shm")


class Space(msgspec.Struct, frozen=True):
    """How large it is, and how much of it is free, in bytes."""

    size_bytes: int
    free_bytes: int


def shared_memory(root: Path = Path("/")) -> Space | None:
    """Return the space in /dev/shm, or None where there is no such folder."""
    try:
        told = os.statvfs(root / PLACE)
    except OSError:
        return None
    return Space(told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize)
