"""The limits that this process itself runs under, and what it uses of them.

They belong to the process: a login shell, a daemon and what they start may have others.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

import msgspec

from ddpcheck.machine.files import names_in, text_of

OPEN_FILES = resource.RLIMIT_NOFILE
PROCESSES = resource.RLIMIT_NPROC
LOCKED_MEMORY = resource.RLIMIT_MEMLOCK
# Bits of a process's capabilities. Source: Linux, include/uapi/linux/capability.h.
IPC_LOCK = 14
SYS_ADMIN = 21
SYS_RESOURCE = 24
# What stands in uid_map where no user is another one. Source: user_namespaces(7).
EVERY_USER = ["0", "0", "4294967295"]


class Limit(msgspec.Struct, frozen=True):
    """What holds now, and how far the process may raise it by itself; None is no limit."""

    soft: int | None
    hard: int | None


def limit(kind: int) -> Limit:
    """Return this process's limit of one kind, in that kind's unit."""
    soft, hard = (
        None if value == resource.RLIM_INFINITY else value for value in resource.getrlimit(kind)
    )
    return Limit(soft, hard)


def open_file_count(root: Path = Path("/")) -> int:
    """Return how many files, sockets and pipes this process has open."""
    return len(names_in(root / "proc/self/fd"))


def has_capability(bit: int, root: Path = Path("/")) -> bool:
    """Return whether the process holds this capability, and it lifts a limit.

    Held in a user namespace (a rootless container) it does not: the kernel asks for it in the
    first one. Source: Linux, include/linux/capability.h, capable; drivers/infiniband/core/umem.c.
    """
    holds = bool(int(_status(root).get("CapEff", "0"), 16) >> bit & 1)
    return holds and _is_in_first_user_namespace(root)


def is_free_of_process_limit(root: Path = Path("/")) -> bool:
    """Return whether RLIMIT_NPROC does not bind this process.

    Source: Linux, kernel/fork.c, copy_process.
    """
    free = os.getuid() == 0 and _is_in_first_user_namespace(root)
    return free or has_capability(SYS_RESOURCE, root) or has_capability(SYS_ADMIN, root)


def thread_count_of_user(root: Path = Path("/")) -> int:
    """Return how many threads run for this process's user: what RLIMIT_NPROC counts."""
    user = str(os.getuid())
    processes = (name for name in names_in(root / "proc") if name.isdecimal())
    each = (_status(root, name) for name in processes)
    return sum(int(own["Threads"]) for own in each if own.get("Uid", "").split()[:1] == [user])


def _is_in_first_user_namespace(root: Path) -> bool:
    return text_of(root / "proc/self/uid_map").split() in ([], EVERY_USER)


def _status(root: Path, process: str = "self") -> dict[str, str]:
    lines = text_of(root / "proc" / process / "status").splitlines()
    told = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in told}
