"""What the control groups of this process allow it, version 1 and 2.

Sources: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/; a group is bound by all
groups above it too. Seen from inside a container the path of the own group may lead nowhere:
then what the container's mount shows is its own group.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ddpcheck.machine.files import text_of

MOUNT = Path("sys/fs/cgroup")
# Version 1 says "no limit" as the largest multiple of a page in 63 bits.
NO_LIMIT_BYTES = 1 << 62
# The page cache counts as used, but the kernel takes it back before it kills anyone.
CACHE = ("inactive_file", "active_file")


class Room(msgspec.Struct, frozen=True):
    """A limit and what is used of it, in bytes or processes.

    ``group`` is the number of the control group that has the limit: all processes that see it
    share it, wherever they see it. It is 0 for a limit that is no group's.
    """

    limit: int
    used: int
    group: int = 0

    @property
    def left(self) -> int:
        """Return how much may still be taken."""
        return max(0, self.limit - self.used)


class Quota(msgspec.Struct, frozen=True):
    """How many cores' time the processes of a control group may use, and that group's number."""

    cores: float
    group: int = 0


def cpu_quota(root: Path = Path("/")) -> Quota | None:
    """Return the tightest quota of time, or None without a limit."""
    quotas = [quota for folder in _folders(root, "cpu") for quota in _quota(folder)]
    return min(quotas, key=lambda quota: quota.cores, default=None)


def memory_room(root: Path = Path("/")) -> Room | None:
    """Return the memory limit that has the least left, in bytes, or None without a limit."""
    rooms = [room for folder in _folders(root, "memory") for room in _memory(folder)]
    return min(rooms, key=lambda room: room.left, default=None)


def task_room(root: Path = Path("/")) -> Room | None:
    """Return the limit on processes and threads that has the least left, or None without one."""
    rooms = [
        Room(limit, _number(folder / "pids.current") or 0, _inode(folder))
        for folder in _folders(root, "pids")
        if (limit := _number(folder / "pids.max")) is not None
    ]
    return min(rooms, key=lambda room: room.left, default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's group and of those above it."""
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / MOUNT / (controller if controllers else "")
        # A path that leaves the namespace of the process has dots in it.
        own = mount if ".." in path else mount / path.lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(mount):
                yield folder


def _quota(folder: Path) -> Iterator[Quota]:
    quota, _, period = text_of(folder / "cpu.max").partition(" ")
    if not quota:
        quota = text_of(folder / "cpu.cfs_quota_us").strip()
        period = text_of(folder / "cpu.cfs_period_us")
    if quota.isdecimal() and int(quota) > 0 and period.strip().isdecimal():
        yield Quota(int(quota) / int(period), _inode(folder))


def _memory(folder: Path) -> Iterator[Room]:
    limit = _number(folder / "memory.max")
    used = _number(folder / "memory.current")
    if limit is None:
        limit = _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.usage_in_bytes")
    if limit is not None and limit < NO_LIMIT_BYTES:
        yield Room(limit, max(0, (used or 0) - _cache_bytes(folder)), _inode(folder))


def _cache_bytes(folder: Path) -> int:
    pairs = (line.split() for line in text_of(folder / "memory.stat").splitlines())
    told = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == len(("name", "value"))}
    return sum(told.get(f"total_{name}", told.get(name, 0)) for name in CACHE)


def _inode(folder: Path) -> int:
    try:
        return folder.stat().st_ino
    except OSError:
        return 0


def _number(path: Path) -> int | None:
    text = text_of(path).strip()
    return int(text) if text.isdecimal() else None
